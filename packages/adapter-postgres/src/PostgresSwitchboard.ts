import * as Effect from "effect/Effect"
import { Switchboard } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { activatePrice } from "./sql/activatePrice.ts"
import { listPrices } from "./sql/listPrices.ts"
import { listWorkers } from "./sql/listWorkers.ts"
import { pauseKind } from "./sql/pauseKind.ts"
import { publishWorker } from "./sql/publishWorker.ts"
import { readBoard } from "./sql/readBoard.ts"
import { setPrice } from "./sql/setPrice.ts"
import { setSwitch } from "./sql/setSwitch.ts"

/** `hint` tells idle workers that a gate may be open that was shut. */
export const makePostgresSwitchboard = (db: Database, hint: Effect.Effect<void>): Switchboard["Service"] =>
  Switchboard.of({
    readBoard: db.read("Switchboard.readBoard", readBoard),
    pauseKind: (kind, paused) =>
      Effect.tap(
        db.write("Switchboard.pauseKind", (tx) => pauseKind(tx, kind, paused)),
        () => (paused ? Effect.void : hint),
      ),
    setSwitch: (name, on) =>
      Effect.tap(
        db.write("Switchboard.setSwitch", (tx) => setSwitch(tx, name, on)),
        () => (on ? hint : Effect.void),
      ),
    setPrice: (price) => db.write("Switchboard.setPrice", (tx) => setPrice(tx, price)),
    activatePrice: (name, active) =>
      Effect.tap(
        db.write("Switchboard.activatePrice", (tx) => activatePrice(tx, name, active)),
        () => (active ? hint : Effect.void),
      ),
    listPrices: db.read("Switchboard.listPrices", listPrices),
    publishWorker: (worker) => db.read("Switchboard.publishWorker", (session) => publishWorker(session, worker)),
    listWorkers: db.read("Switchboard.listWorkers", listWorkers),
  })
