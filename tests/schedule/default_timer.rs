//! Tasks on the default timer of the current runtime.

use super::*;

/// A thread that runs two runtimes in turn schedules each task on the runtime that is current.
#[test]
fn each_runtime_runs_its_own_tasks() {
    let runtimes = [paused(), paused()];
    for _ in 0..3 {
        for runtime in &runtimes {
            let ran_on = runtime.block_on(async {
                let task = Timer::current().schedule(ms(5), async { Handle::current().id() });
                output(task.unwrap()).await
            });
            assert_eq!(ran_on, runtime.handle().id());
        }
    }
}

/// A task that the runtime drops schedules from its destructor. The call may still be accepted if the
/// driver is dropped later, and the task then ends with the runtime.
#[test]
fn a_runtime_that_shuts_down_runs_no_new_task() {
    for runtime in [current_thread(), multi_thread(1)] {
        let (send, receive) = mpsc::channel();
        runtime.block_on(async {
            output(Timer::current().schedule(Duration::ZERO, async {}).unwrap()).await;
            let on_drop = OnDrop::new(move || {
                send.send(Timer::current().schedule(Duration::ZERO, async { 7 }))
                    .unwrap();
            });
            tokio::spawn(async move {
                let _held = on_drop;
                pending::<()>().await;
            });
            yield_now().await;
        });
        drop(runtime);
        match receive.recv().unwrap() {
            Ok(task) => assert!(tokio_test::block_on(task).unwrap_err().is_shutdown()),
            Err(refused) => assert!(refused.is_shutdown()),
        }
    }
}

/// A task runs on the runtime that is current, even if a worker of another runtime schedules it.
#[test]
fn a_worker_that_has_entered_another_runtime_schedules_there() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    };
    let (ours, other) = (runtime(), runtime());
    let entered = other.handle().clone();
    let ran_on = ours.block_on(ours.spawn(async move {
        // After these sleeps, the worker remembers its own runtime and no longer asks which one is current.
        for _ in 0..20 {
            tokio_wheel::sleep(ms(1)).await;
            yield_now().await;
        }
        let task = {
            let _guard = entered.enter();
            Timer::current()
                .schedule(ms(1), async { Handle::current().id() })
                .unwrap()
        };
        output(task).await
    }));
    assert_eq!(ran_on.unwrap(), other.handle().id());
}
