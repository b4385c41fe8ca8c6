//! Components that no compiler makes, as text. Each does its harm while it is instantiated, so none
//! exports a step: where no limit stops it, the host finds that out next.

fn component(module: &str, instances: usize) -> Vec<u8> {
    let instantiate = "(core instance (instantiate $m))\n".repeat(instances);
    wat::parse_str(format!("(component (core module $m {module})\n{instantiate})")).unwrap()
}

/// Many small memories.
pub(crate) fn memories(count: usize) -> Vec<u8> {
    component(&"(memory 1)".repeat(count), 1)
}

/// A few large memories: none is over the limit, all together are.
pub(crate) fn large_memories(count: usize, pages: usize) -> Vec<u8> {
    component(&format!("(memory {pages})"), count)
}

/// Three tables in each of `modules` instances.
pub(crate) fn tables(modules: usize) -> Vec<u8> {
    component(&"(table 1 funcref)".repeat(3), modules)
}

/// Many core instances.
pub(crate) fn instances(count: usize) -> Vec<u8> {
    component("", count)
}

/// A table that grows to `elements`, a thousand at a time.
pub(crate) fn growing_table(elements: usize) -> Vec<u8> {
    let grow = format!(
        "(table $t 0 funcref)
         (func $start
           (loop $again
             (drop (table.grow $t (ref.null func) (i32.const 1000)))
             (br_if $again (i32.lt_u (table.size $t) (i32.const {elements})))))
         (start $start)"
    );
    component(&grow, 1)
}

/// Calls itself `depth` times.
pub(crate) fn recursion(depth: u64) -> Vec<u8> {
    let recurse = format!(
        "(func $again (param $left i64)
           (if (i64.ne (local.get $left) (i64.const 0))
             (then (call $again (i64.sub (local.get $left) (i64.const 1))))))
         (func $start (call $again (i64.const {depth})))
         (start $start)"
    );
    component(&recurse, 1)
}

/// Never gets ready.
pub(crate) fn endless_start() -> Vec<u8> {
    endless_starts(1)
}

/// The same in many core instances; the first never lets the others begin.
pub(crate) fn endless_starts(count: usize) -> Vec<u8> {
    component("(func $start (loop $again (br $again))) (start $start)", count)
}

/// 16 MiB of code and data that have to be copied for every instance.
pub(crate) fn large_data() -> Vec<u8> {
    component(&format!("(memory 300) (data (i32.const 0) \"{}\")", "x".repeat(16 << 20)), 1)
}

#[tokio::test]
async fn a_component_too_large_for_the_pool_runs_beside_it() {
    use fettle_host::sandbox::{Allocation, engine::layout};

    let node = super::common::TestNode::new();
    let instances = layout::INSTANCES as usize;
    for (count, allocation) in [(instances, Allocation::Pooled), (instances + 1, Allocation::OnDemand)] {
        let compiled = node.sandbox.compile(self::instances(count).into()).await.unwrap();
        assert_eq!(compiled.allocation(), allocation);
        let step = node.sandbox.link(&compiled, &fettle_model::grant::Grants::default()).unwrap();
        let call = node.call(
            &fettle_model::grant::Grants::default(),
            &std::sync::Arc::default(),
            std::time::Duration::from_secs(9),
        );
        // It gets as far as being asked for a step.
        assert_eq!(step.run(call, "{}").await.unwrap_err().code, "step.trapped");
    }
}
