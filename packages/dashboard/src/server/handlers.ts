import * as Effect from "effect/Effect"
import type { StoreUnavailable } from "@kiln/core/domain"
import type { Operator as OperatorService } from "@kiln/core/effect"
import type { DeliveryStore, JobDirectory, JobStore, KeyDirectory, ScheduleStore, Switchboard } from "@kiln/core/ports"
import type { InputOf, OperationName, ResultOf } from "../api/index.ts"
import type { ApiError } from "./ApiError.ts"
import { cancelJobs, promoteJobs, retryJobs } from "./bulk.ts"
import type { Caller } from "./Caller.ts"
import {
  capProject,
  changeSchedule,
  limitProject,
  revokeKey,
  setActive,
  setDisabled,
  setPaused,
  turnSwitch,
} from "./changeInstallation.ts"
import { cancelJob, promoteJob, rescheduleJob, retryJob, runSchedule } from "./changes.ts"
import { failureMessages, failures } from "./failures.ts"
import type { Findings } from "./Findings.ts"
import { makeHistory } from "./history.ts"
import {
  listAudit,
  listDeliveries,
  listKeys,
  listKinds,
  listPrices,
  listProjects,
  listSchedules,
  listSwitches,
  readQueues,
  switchImpact,
} from "./installation.ts"
import { listJobs, readContent, readJob } from "./jobs.ts"
import { makeOverview } from "./overview.ts"
import { shared } from "./shared.ts"

/** The services that the operator's API needs. It also uses `AuditLog`, `OperatorTokens` and `MinuteHistory` where there are any. */
export type AdminServices =
  | OperatorService
  | JobStore
  | JobDirectory
  | KeyDirectory
  | Switchboard
  | ScheduleStore
  | DeliveryStore

type HandlerOf<Name extends OperationName> = (
  input: InputOf<Name>,
  caller: Caller,
) => Effect.Effect<ResultOf<Name>, ApiError | StoreUnavailable, AdminServices>

export type Handlers = { readonly [Name in OperationName]: HandlerOf<Name> }

export interface HandlerOptions {
  readonly findings: Effect.Effect<Findings> | undefined
  readonly version: string | undefined
}

/** Returns the handlers. An operation without one does not compile. */
export const makeHandlers = ({ findings, version }: HandlerOptions): Handlers => {
  const queues = shared(readQueues)
  const overview = makeOverview(queues, findings)
  const kinds = shared(listKinds(queues))
  const deliveries = shared(listDeliveries)
  const failuresBySpan = {
    "1h": shared(failures({ id: "", query: { span: "1h" }, payload: {} }), 3_000),
    "24h": shared(failures({ id: "", query: { span: "24h" }, payload: {} }), 3_000),
  }
  return {
    session: (_, { name, roles }) => Effect.succeed({ actor: name, roles, version: version ?? null }),
    overview: () => overview,
    history: makeHistory(),
    listJobs,
    readJob,
    readContent,
    cancelJob,
    retryJob,
    cancelJobs,
    retryJobs,
    promoteJob,
    rescheduleJob,
    promoteJobs,
    failures: ({ query: { span = "1h" } }) => failuresBySpan[span],
    failureMessages,
    listKinds: () => kinds,
    pauseKind: setPaused("pause"),
    resumeKind: setPaused("resume"),
    listProjects: () => listProjects,
    disableProject: setDisabled("disable"),
    enableProject: setDisabled("enable"),
    limitProject,
    capProject,
    listKeys: () => listKeys,
    revokeKey,
    listSchedules: () => listSchedules,
    runSchedule,
    pauseSchedule: changeSchedule("pause"),
    resumeSchedule: changeSchedule("resume"),
    removeSchedule: changeSchedule("remove"),
    listDeliveries: () => deliveries,
    listSwitches: () => listSwitches,
    switchImpact: (input) => switchImpact(input, queues),
    turnOn: turnSwitch("on"),
    turnOff: turnSwitch("off"),
    listPrices: () => listPrices,
    activatePrice: setActive("activate"),
    deactivatePrice: setActive("deactivate"),
    listAudit,
  }
}
