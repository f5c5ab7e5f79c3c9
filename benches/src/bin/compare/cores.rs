//! Prints how the cost of an operation grows with the number of workers, each on a core of its own,
//! beside what the model predicts from one worker.

use tokio_wheel_benches::{
    cell::{name, worker_counts},
    model::{OPERATIONS, Processor},
    stats::{Estimate, number, print_table, range},
};

use crate::{
    job::transfer,
    report::{BARE, Measured, print_machine},
};

pub(crate) fn print(measured: &Measured) {
    print_machine(measured);
    let figure = |row: &str, peer| Some(measured.find(row, peer)?.median());
    let transfers = (1..measured.cores).map_while(|core| figure(&transfer(core), BARE));
    let transfers: Vec<_> = transfers.collect();
    if let Some(estimate) = Estimate::of(transfers.iter().copied()) {
        let ns = range(&estimate, " ns");
        println!("A line moves from the first core to another in {ns}.");
    }
    let processor = Processor::measured("this machine", transfers);
    let counts = worker_counts(measured.cores);
    let columns = counts.iter().map(|workers| workers.to_string());
    let mut rows = vec![["workers".to_owned()].into_iter().chain(columns).collect()];
    for operation in &OPERATIONS {
        let (workload, timer) = (operation.workload, operation.timer);
        let figure = |workers| figure(&format!("{workload} {}", name(workers, true)), timer);
        let Some(alone) = figure(1) else {
            continue;
        };
        let cells = counts.iter().map(|&workers| {
            let model = operation.cost(alone, 0.0, workers, &processor);
            let ns = figure(workers).map_or("-".to_owned(), number);
            format!("{ns} ({})", number(model))
        });
        let name = format!("{workload} {timer}");
        rows.push([name].into_iter().chain(cells).collect());
    }
    println!();
    print_table(&rows);
    println!(
        "\nns of an operation on each of so many workers, while an earlier timer is pending. In parentheses:\n\
         what the model of docs/scaling.md predicts from one worker and from the times of lines above.\n\
         Please send this output, and the file of --json, in an issue of the repository."
    );
}
