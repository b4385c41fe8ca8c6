//! Protections of the sandbox and of compiled code; attacks on them are in `host/tests`.

fettle_mutation::protections! {
    /// A component that imports what it is not granted is refused.
    ImportsAreGranted,
    /// A component is linked with what it is granted, and with nothing else.
    OnlyGrantsAreLinked,
    /// Compiled code is loaded only when its authentication code is right.
    CodeIsAuthenticated,
    /// Compiled code is loaded only for the component it was compiled from.
    CodeNamesItsComponent,
    /// Compiled code is loaded only by the engine it was compiled for, patch release included.
    CodeNamesItsEngine,
    /// Compiled code comes from plain files: no link, no pipe.
    CodeFilesArePlain,
    /// Compiled code comes from files that only this user can write.
    CodeFilesAreOurs,
    /// A key that others could read or write is not used.
    CodeKeyIsPrivate,
    /// A component makes no socket and looks no name up.
    ComponentsHaveNoNetwork,
    /// A step has no source of chance: what it does follows from what it is asked and answered.
    StepsHaveNoChance,
    /// A component's clocks stand still.
    ClocksStandStill,
    /// Attempts that compute for long take turns.
    LongAttemptsTakeTurns,
    /// A task is taken when a key for tasks of an authority that counts has signed it.
    TasksAreSigned,
    /// A task is taken once, on the stream that it was signed for.
    TasksAreFresh,
    /// The handle of a credential is one that this host made, for this task.
    HandlesAreAuthenticated,
    /// A credential goes along when its own artifact is fetched, and with nothing else of the repository.
    CredentialsOpenOneArtifact,
    /// A task runs by a policy bundle that counts on the node.
    PolicyBundlesCount,
    /// What the record of a host says of policy bundles is what was signed.
    ActivationsAreVerifiedAgain,
    /// A secret that a program prints does not reach the step.
    PrintedSecretsAreHidden,
    /// Freed memory holds nothing of what was in it.
    FreedMemoryIsOverwritten,
    /// A component's call stack ends long before the host's.
    StacksAreBounded,
}
