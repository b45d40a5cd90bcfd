import type { ProjectId } from "./Ids.ts"
import { type Meter, type PriceSnapshot, uncoveredMeters } from "./Billing.ts"

/** A switch of the built-in kinds. Other kinds may have their own. */
export type SwitchName = "ai" | "audio" | "images"
export const switchNames: ReadonlyArray<SwitchName> = ["ai", "audio", "images"]
/** The pattern of switch names. */
export const switchNameForm = /^[a-z][a-z0-9_-]{0,63}$/

/** Switches by name. */
export type BoardSwitches = Readonly<Record<SwitchName, boolean> & Record<string, boolean>>

/** Returns the switches of a board from those that were set. The built-in ones are off until then. */
export const switchesWith = (set: Iterable<readonly [name: string, on: boolean]>): BoardSwitches => ({
  ai: false,
  audio: false,
  images: false,
  ...Object.fromEntries(set),
})

const isOn = ({ switches }: Board, name: string): boolean => Object.hasOwn(switches, name) && switches[name] === true

/** The prices of the HTTP service, in the order in which missing ones are reported. */
export const priceNames = ["svc-audio", "svc-image"] as const

/** The prerequisites of a live job besides a key. Sandbox jobs have no gate. */
export interface Gate {
  /** `null` if jobs of the kind are free. */
  readonly price: string | null
  /** Meters that the price must cover; a price that lacks one of them counts as missing. */
  readonly meters: ReadonlyArray<Meter>
  readonly switches: ReadonlyArray<string>
  /** Requires a worker that serves such jobs live; `null` requires no worker. */
  readonly liveWorker: LiveWorkerRule | null
}

/** Requires that a worker serves a kind live, or did so recently: jobs may wait that long in the queue anyway. */
export interface LiveWorkerRule {
  readonly kind: string
  /** Milliseconds, inclusive. */
  readonly withinMs: number
}

/** The operator's settings and the capabilities of the running workers, as recorded in the store. */
export interface Board {
  /** The built-in switches, and every other one that was ever set. One that is missing is off. */
  readonly switches: BoardSwitches
  /** The active version of each active price. */
  readonly prices: Readonly<Record<string, PriceSnapshot>>
  /** Job kinds that at least one running worker can serve live. */
  readonly liveKinds: ReadonlyArray<string>
  /**
   * When each kind was last served live by any worker, in Unix milliseconds of store time. It outlives the workers. While a
   * worker serves the kind, the value may be up to `lastServedStepMs` old; a clean shutdown writes the exact time.
   */
  readonly lastServedAt: Readonly<Record<string, number>>
  /** Job kinds that the operator has paused, sorted by name. Their jobs are accepted and wait, in both modes; none is claimed. */
  readonly pausedKinds: ReadonlyArray<string>
  /**
   * The maximum number of a project's concurrent jobs, for the projects that have their own limit; 0 means no limit. It
   * replaces `limits.perProject` of the settings.
   */
  readonly projectConcurrency: Readonly<Record<ProjectId, number>>
}

/** Minimum age in milliseconds at which a kind's `lastServedAt` is updated: workers publish far more often. */
export const lastServedStepMs = 60_000

/**
 * Returns what keeps a gate closed at this store time: `price:svc-audio`, `switch:ai`, `provider:transcription`, … in the
 * order of the contract: prices, switches (the built-in ones first), provider. Empty when the gate is open.
 */
export const missingPrerequisites = (gate: Gate, board: Board, now: number): ReadonlyArray<string> => [
  ...(gate.price === null || isCovered(gate.price, gate.meters, board) ? [] : [`price:${gate.price}`]),
  ...inOrder(gate.switches)
    .filter((name) => !isOn(board, name))
    .map((name) => `switch:${name}`),
  ...(gate.liveWorker === null || isServed(gate.liveWorker, board, now) ? [] : [`provider:${gate.liveWorker.kind}`]),
]

const inOrder = (names: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...switchNames.filter((name) => names.includes(name)),
  ...names.filter((name) => !isBuiltInSwitch(name)),
]

/** Returns whether a switch belongs to the built-in kinds. */
export const isBuiltInSwitch = (name: string): name is SwitchName =>
  (switchNames as ReadonlyArray<string>).includes(name)

const isCovered = (name: string, needed: ReadonlyArray<Meter>, { prices }: Board): boolean => {
  const price = Object.hasOwn(prices, name) ? prices[name] : undefined
  return price !== undefined && uncoveredMeters(price, needed).length === 0
}

const isServed = ({ kind, withinMs }: LiveWorkerRule, { lastServedAt, liveKinds }: Board, now: number): boolean => {
  if (liveKinds.includes(kind)) return true
  const servedAt = Object.hasOwn(lastServedAt, kind) ? lastServedAt[kind] : undefined
  return servedAt !== undefined && now - servedAt <= withinMs
}

/** Returns the board with these switches forced off, whatever the store says. */
export const withForcedOff = (board: Board, forcedOff: ReadonlyArray<string>): Board =>
  forcedOff.length === 0
    ? board
    : { ...board, switches: switchesWith([...Object.entries(board.switches), ...forcedOff.map(off)]) }

const off = (name: string) => [name, false] as const
