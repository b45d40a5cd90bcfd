import * as Effect from "effect/Effect"
import { Decimal, isId, type SpendCap } from "@kiln/core/domain"
import { listSchedules, Operator, pauseSchedule, removeSchedule, resumeSchedule } from "@kiln/core/effect"
import { KeyDirectory, Switchboard } from "@kiln/core/ports"
import type { InputOf } from "../api/index.ts"
import { refuse } from "./ApiError.ts"
import type { Caller } from "./Caller.ts"
import { always, recorded } from "./changes.ts"
import { findProject } from "./names.ts"

/** The input of a change without a payload. */
interface OfId {
  readonly id: string
}

const changed = { changed: true }

export const setPaused =
  (word: "pause" | "resume") =>
  ({ id }: OfId, caller: Caller) =>
    Effect.flatMap(Operator, (operator) => operator[word](id)).pipe(
      recorded(caller, `queue.${word}`, id, { changed: always }),
      Effect.as(changed),
      Effect.catchTag("KindUnknown", (error) => Effect.fail(refuse("not_found", error.message))),
    )

/** Schedules need no key to submit jobs, so those of a disabled project are paused, as the command does. */
const pauseSchedulesOf = Effect.fnUntraced(function* (projectId: string, caller: Caller) {
  const { schedules } = yield* listSchedules
  for (const { name, owner, paused } of schedules)
    if (owner.projectId === projectId && !paused)
      yield* pauseSchedule(name).pipe(recorded(caller, "schedule.pause", name))
})

export const setDisabled = (word: "disable" | "enable") =>
  Effect.fnUntraced(function* (input: OfId, caller: Caller) {
    const { id, name } = yield* findProject(input.id)
    yield* (yield* KeyDirectory)
      .disableProject(id, word === "disable")
      .pipe(recorded(caller, `project.${word}`, id, { details: { name } }))
    if (word === "disable") yield* pauseSchedulesOf(id, caller)
    return changed
  })

export const limitProject = Effect.fnUntraced(function* (
  { id: nameOrId, payload: { concurrency } }: InputOf<"limitProject">,
  caller: Caller,
) {
  if (concurrency !== null && concurrency < 0)
    return yield* Effect.fail(refuse("invalid_request", "concurrency must be 0 or more, or null"))
  const { id } = yield* findProject(nameOrId)
  const action = concurrency === null ? "project.limit.clear" : "project.limit.set"
  yield* (yield* Operator)
    .limitProject(id, concurrency)
    .pipe(recorded(caller, action, id, { changed: always, details: concurrency === null ? {} : { concurrency } }))
  return changed
})

const amountOf = (name: string, text: string | null) => {
  if (text === null) return Effect.succeed(null)
  const amount = Decimal.tryParse(text)
  return amount === undefined
    ? Effect.fail(refuse("invalid_request", `${name} must be a plain decimal like 25 or 0.50`))
    : Effect.succeed(Decimal.format(amount))
}

export const capProject = Effect.fnUntraced(function* (
  { id: nameOrId, payload }: InputOf<"capProject">,
  caller: Caller,
) {
  if (!/^[a-z]{3}$/.test(payload.currency))
    return yield* Effect.fail(refuse("invalid_request", "currency must be a lower-case ISO 4217 code like usd"))
  const day = yield* amountOf("day", payload.day)
  const month = yield* amountOf("month", payload.month)
  const { id } = yield* findProject(nameOrId)
  const cap: SpendCap | null = day === null && month === null ? null : { currency: payload.currency, day, month }
  const details = cap === null ? {} : { currency: cap.currency, day, month }
  yield* (yield* Operator)
    .setSpendCap(id, cap)
    .pipe(recorded(caller, cap === null ? "project.cap.clear" : "project.cap.set", id, { changed: always, details }))
  return changed
})

export const revokeKey = Effect.fnUntraced(function* ({ id }: InputOf<"revokeKey">, caller: Caller) {
  const key = isId("key", id)
    ? yield* (yield* KeyDirectory).revokeKey(id).pipe(recorded(caller, "key.revoke", id))
    : undefined
  if (key === undefined) return yield* Effect.fail(refuse("not_found", "there is no such key"))
  return changed
})

const scheduleVerbs = { pause: pauseSchedule, resume: resumeSchedule, remove: removeSchedule }

export const changeSchedule = (word: keyof typeof scheduleVerbs) =>
  Effect.fnUntraced(function* ({ id }: OfId, caller: Caller) {
    const exists = yield* scheduleVerbs[word](id).pipe(recorded(caller, `schedule.${word}`, id))
    if (!exists) return yield* Effect.fail(refuse("not_found", "there is no such schedule"))
    return changed
  })

/** Also turns switches of other programs, which have set them before. */
export const turnSwitch = (word: "on" | "off") =>
  Effect.fnUntraced(function* ({ id }: OfId, caller: Caller) {
    const operator = yield* Operator
    const switchboard = yield* Switchboard
    const known = (yield* operator.board).switches
    if (!Object.hasOwn({ ...known, ...(yield* switchboard.readBoard).switches }, id))
      return yield* Effect.fail(refuse("not_found", "there is no such switch"))
    const verb = Object.hasOwn(known, id)
      ? operator.setSwitch(id, word === "on")
      : switchboard.setSwitch(id, word === "on")
    yield* verb.pipe(recorded(caller, `switch.${word}`, id, { changed: always }))
    return changed
  })

export const setActive = (word: "activate" | "deactivate") =>
  Effect.fnUntraced(function* ({ id }: OfId, caller: Caller) {
    const known = yield* (yield* Switchboard)
      .activatePrice(id, word === "activate")
      .pipe(recorded(caller, `price.${word}`, id))
    if (!known) return yield* Effect.fail(refuse("not_found", "there is no such price"))
    return changed
  })
