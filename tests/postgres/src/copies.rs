//! Copies of a server: one that follows it, and one that stays as it was.

use std::{os::unix::fs::symlink, path::Path};

use super::{Cluster, SUPERUSER, as_user, directory};

impl Cluster {
    /// A copy of what the server has now, not started. With `follows` it is a standby of which the server
    /// waits with every commit, once it is started.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn copied(&self, follows: bool) -> Self {
        let copy = directory(self.user);
        let mut backup = as_user(&self.programs.join("pg_basebackup"), self.user);
        backup.arg("-h").arg(self.directory.path()).args(["-U", SUPERUSER, "-X", "stream", "-c", "fast", "--no-sync"]);
        if follows {
            backup.arg("-R");
        }
        let said = backup.arg("-D").arg(copy.path().join("data")).output().unwrap();
        assert!(said.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&said.stderr));
        Self { directory: copy, programs: self.programs.clone(), user: self.user, arguments: Vec::new(), server: None }
    }

    /// From now on no commit is answered before a standby has it on disk.
    ///
    /// # Panics
    /// When no standby comes.
    pub fn wait_for_standby(&self) {
        self.say("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.say("SELECT pg_reload_conf()");
        for _ in 0..super::STARTS {
            if self.say("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").trim() == "1" {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
        panic!("no standby follows");
    }

    /// Makes a standby the server that writes.
    ///
    /// # Panics
    /// When it does not become one.
    pub fn promote(&self) {
        // It would wait for a standby of its own.
        self.say("ALTER SYSTEM SET synchronous_standby_names = ''");
        self.say("SELECT pg_reload_conf()");
        assert_eq!(self.say("SELECT pg_promote()").trim(), "t", "the standby is promoted");
    }

    /// What the superuser is answered.
    fn say(&self, statement: &str) -> String {
        let mut psql = as_user(&self.programs.join("psql"), self.user);
        psql.arg("-h").arg(self.directory.path()).args(["-U", SUPERUSER, "-d", "postgres", "-At", "-c", statement]);
        let said = psql.output().unwrap();
        assert!(said.status.success(), "{statement}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    /// Lets `place` lead to this server, whichever it led to before. An address of that place follows.
    ///
    /// # Panics
    /// When the link cannot be made.
    pub fn take_over(&self, place: &Path) {
        let new = place.with_extension("new");
        symlink(self.directory.path(), &new).unwrap();
        std::fs::rename(new, place).unwrap();
    }

    /// The address of the database of whoever took over that place.
    #[must_use]
    pub fn url_at(place: &Path) -> String {
        format!("postgres://{SUPERUSER}@{}/postgres", place.display().to_string().replace('/', "%2F"))
    }
}
