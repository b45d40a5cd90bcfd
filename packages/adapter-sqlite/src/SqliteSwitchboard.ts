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

export const makeSqliteSwitchboard = (db: Database): Switchboard["Service"] =>
  Switchboard.of({
    readBoard: db.read("Switchboard.readBoard", readBoard),
    pauseKind: (kind, paused) => db.write("Switchboard.pauseKind", (tx) => pauseKind(tx, kind, paused)),
    setSwitch: (name, on) => db.write("Switchboard.setSwitch", (tx) => setSwitch(tx, name, on)),
    setPrice: (price) => db.write("Switchboard.setPrice", (tx) => setPrice(tx, price)),
    activatePrice: (name, active) => db.write("Switchboard.activatePrice", (tx) => activatePrice(tx, name, active)),
    listPrices: db.read("Switchboard.listPrices", listPrices),
    publishWorker: (worker) => db.write("Switchboard.publishWorker", (tx) => publishWorker(tx, worker)),
    listWorkers: db.read("Switchboard.listWorkers", listWorkers),
  })
