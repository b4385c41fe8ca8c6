//! What goes wrong, when, and for how long.

use std::{sync::Arc, time::Duration};

use crate::{
    fleet::{Ground, Seat},
    machine::Strike,
};

/// How far clocks jump: an hour.
const JUMP: i64 = 3_600_000;

/// How many simulated seconds things go wrong.
const TROUBLE: std::ops::Range<u64> = 15..70;

/// Lets things go wrong for a while, then sees to it that nothing more does.
pub(crate) async fn trouble(ground: &Arc<Ground>, plane: &Arc<Seat>, hosts: &[Arc<Seat>]) {
    let net = &ground.net;
    net.set_calm(false);
    let end = tokio::time::Instant::now() + Duration::from_secs(net.chance.of(TROUBLE));
    while tokio::time::Instant::now() < end {
        tokio::time::sleep(net.chance.milliseconds(200..9_000)).await;
        one(ground, plane, net.chance.choose(hosts));
    }
    net.set_calm(true);
    for seat in hosts.iter().chain([plane]) {
        seat.link.block(false);
        if let Some(machine) = seat.life() {
            machine.strike(Strike { after: u64::MAX, written: true });
        }
    }
    net.trace.note("nothing goes wrong any more");
}

fn one(ground: &Arc<Ground>, plane: &Arc<Seat>, host: &Arc<Seat>) {
    let (chance, trace) = (&ground.net.chance, &ground.net.trace);
    let strike = || Strike { after: chance.of(0..40), written: chance.percent(50) };
    match chance.of(0..10) {
        0 => plane.life().into_iter().for_each(|machine| machine.kill()),
        1 | 2 => plane.life().into_iter().for_each(|machine| machine.strike(strike())),
        3 => host.life().into_iter().for_each(|machine| machine.kill()),
        4 => host.life().into_iter().for_each(|machine| machine.strike(strike())),
        5 | 6 => {
            let away = if chance.percent(50) { 100..9_000 } else { 9_000..45_000 };
            let away = chance.milliseconds(away);
            trace.note(&format!("{} is apart for {away:?}", host.name));
            host.link.block(true);
            let host = Arc::clone(host);
            tokio::spawn(async move {
                tokio::time::sleep(away).await;
                host.link.block(false);
            });
        }
        7 => {
            let jump = if chance.percent(50) { JUMP } else { -JUMP };
            let seat = if chance.percent(60) { plane } else { host };
            trace.note(&format!("the clock of {} jumps by {jump} ms", seat.name));
            seat.clock.jump(jump);
        }
        _ => {
            trace.note(&format!("the streams of {} are cut", host.name));
            host.link.cut();
        }
    }
}
