import type { SpendOwner } from "@kiln/core/domain"
import { Switchboard } from "@kiln/core/ports"
import { Effect } from "effect"
import type { Api } from "./Api.ts"

/** The operator's side of live jobs, through the port: no endpoint changes prices or switches. */

type Board = Switchboard["Service"]
const board = (api: Api, use: (board: Board) => Effect.Effect<unknown, unknown>) =>
  api.service.run(Effect.flatMap(Switchboard, use))

export const audioPrice = { input_audio_seconds: "0.0001", input_characters: "0.000015", output_tokens: "0.00002" }
export const setPrice = (api: Api, name: string, unitAmounts: Readonly<Record<string, string>>) =>
  board(api, (it) => it.setPrice({ name, currency: "eur", unitAmounts }))
export const activate = (api: Api, name: string, active = true) => board(api, (it) => it.activatePrice(name, active))
export const turnSwitch = (api: Api, name: "ai" | "audio" | "images", on: boolean) =>
  board(api, (it) => it.setSwitch(name, on))

/** Caps what a key or a project may spend in a day, in the currency of the prices. */
export const capDay = (api: Api, owner: string, day: string | null) =>
  board(api, (it) => it.setSpendCap(owner as SpendOwner, day === null ? null : { currency: "eur", day, month: null }))

export const everythingOn = async (api: Api) => {
  await setPrice(api, "svc-audio", audioPrice)
  await setPrice(api, "svc-image", { images: "0.011" })
  for (const name of ["svc-audio", "svc-image"]) await activate(api, name)
  for (const name of ["ai", "audio", "images"] as const) await turnSwitch(api, name, true)
}

/** Milliseconds until every process has seen a change of the board. */
const boardAgeMs = 1_000

/**
 * Pauses these kinds during an operation, so that their jobs stay queued. Changes to the switchboard made in the meantime stay
 * in effect.
 */
export const whilePaused = async <A>(api: Api, kinds: ReadonlyArray<string>, use: () => Promise<A>): Promise<A> => {
  const settle = () => new Promise((resolve) => setTimeout(resolve, boardAgeMs))
  for (const kind of kinds) await board(api, (it) => it.pauseKind(kind, true))
  await settle()
  try {
    const value = await use()
    await settle()
    return value
  } finally {
    for (const kind of kinds) await board(api, (it) => it.pauseKind(kind, false))
  }
}

/** The bill of a live job that has not ended. */
export const pending = { status: "pending", currency: "eur", amount: null, line_items: [] }
