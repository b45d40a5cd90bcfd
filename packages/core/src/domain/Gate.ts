import type { PriceSnapshot } from "./Billing.ts"

export type SwitchName = "ai" | "audio" | "images"
export const switchNames: ReadonlyArray<SwitchName> = ["ai", "audio", "images"]
/** The prices of the HTTP service, in the order in which they are reported missing. */
export const priceNames = ["svc-audio", "svc-image"] as const

/** What a live job needs besides a key. Sandbox jobs have no gate. */
export interface Gate {
  /** `null` where jobs of the kind cost nothing. */
  readonly price: string | null
  readonly switches: ReadonlyArray<SwitchName>
  /** The job kind that some running worker must be able to serve live. */
  readonly kind: string
}

/** The operator's settings and what the running workers can do, as the store knows them. */
export interface Board {
  readonly switches: Readonly<Record<SwitchName, boolean>>
  /** The active version of each active price. */
  readonly prices: Readonly<Record<string, PriceSnapshot>>
  /** Job kinds some running worker can serve live. */
  readonly liveKinds: ReadonlyArray<string>
  /** Job kinds the operator has paused: none of their jobs is claimed, in neither mode; they are accepted and wait. By name. */
  readonly pausedKinds: ReadonlyArray<string>
}

/** `price:svc-audio`, `switch:ai`, `provider:transcription`, … in the order of the contract: prices, switches, provider. */
export const missingPrerequisites = (gate: Gate, board: Board): ReadonlyArray<string> => [
  ...(gate.price !== null && !Object.hasOwn(board.prices, gate.price) ? [`price:${gate.price}`] : []),
  ...switchNames
    .filter((name) => gate.switches.includes(name) && !board.switches[name])
    .map((name) => `switch:${name}`),
  ...(board.liveKinds.includes(gate.kind) ? [] : [`provider:${gate.kind}`]),
]

/** Switches that the environment forces off win over the store's. */
export const withForcedOff = (board: Board, forcedOff: ReadonlyArray<SwitchName>): Board =>
  forcedOff.length === 0
    ? board
    : {
        ...board,
        switches: {
          ai: board.switches.ai && !forcedOff.includes("ai"),
          audio: board.switches.audio && !forcedOff.includes("audio"),
          images: board.switches.images && !forcedOff.includes("images"),
        },
      }
