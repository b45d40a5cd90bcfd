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

export const everythingOn = async (api: Api) => {
  await setPrice(api, "svc-audio", audioPrice)
  await setPrice(api, "svc-image", { images: "0.011" })
  for (const name of ["svc-audio", "svc-image"]) await activate(api, name)
  for (const name of ["ai", "audio", "images"] as const) await turnSwitch(api, name, true)
}

/** Takes the worker's one hand, so that a live job stays queued for the moment. */
export const occupied = async (api: Api, seconds: number) => {
  const blocker = await api.job("/v1/audio/speech", { input: `sandbox:delay:${seconds}` })
  await api.polled(blocker.path, "processing")
  return blocker
}

/** The bill of a live job that has not ended. */
export const pending = { status: "pending", currency: "eur", amount: null, line_items: [] }
