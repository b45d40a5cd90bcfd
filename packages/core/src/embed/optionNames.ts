import type { OptionNames } from "../domain/index.ts"
import type { JobEventType } from "../engine/JobEvent.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import type {
  AbortOption,
  EmbeddedEngine,
  ProjectOption,
  ScheduleOptions,
  Submission,
  SubmitOptions,
  UniqueOptions,
  WaitOptions,
} from "./EmbeddedEngine.ts"
import type { CallerContext } from "./CallerContext.ts"
import type { EngineParts, ModeProviders } from "./EngineOptions.ts"
import type { ListQuery, OperatorVerbs, ProjectLimits, SpendCapAmounts } from "./OperatorVerbs.ts"

// The options of each call, checked at run time for JavaScript programs and for spreads that hide names from the compiler.

export const engineOptions: OptionNames<
  EngineParts<Kind, never, never, boolean> & { readonly providers?: ModeProviders<object> }
> = {
  store: true,
  blobs: true,
  kinds: true,
  probe: true,
  settings: true,
  mode: true,
  worker: true,
  autoStart: true,
  log: true,
  onError: true,
  context: true,
  telemetry: true,
  onFinished: true,
  providers: true,
}

export const modeNames: OptionNames<ModeProviders<object>> = { sandbox: true, live: true }

const submission: OptionNames<SubmitOptions> = {
  project: true,
  idempotencyKey: true,
  mode: true,
  priority: true,
  delayMs: true,
  runAt: true,
  unique: true,
  tags: true,
  metadata: true,
}
export const uniqueOptions: OptionNames<UniqueOptions> = { by: true, while: true }
export const contextOptions: OptionNames<CallerContext> = { capture: true, restore: true }
export const submissionFields: OptionNames<Submission<unknown>> = { ...submission, request: true }
const waiting: OptionNames<WaitOptions> = { project: true, signal: true, timeoutMs: true }
const call: OptionNames<ProjectOption & AbortOption> = { project: true, signal: true }
const abort: OptionNames<AbortOption> = { signal: true }

type OptionsOf<Verb> = Verb extends (...given: infer Given) => unknown ? NonNullable<Given[number]> : never

export const verbOptions = {
  submit: { ...submission, signal: true, transaction: true },
  submitSync: { ...submission, transaction: true },
  submitMany: { signal: true, transaction: true },
  submitManySync: { transaction: true },
  get: call,
  wait: waiting,
  submitAndWait: { ...submission, ...waiting },
  eraseData: call,
  createUpload: { ...call, mode: true },
  receiveUpload: abort,
  readFile: abort,
  streamFile: abort,
  events: abort,
} as const satisfies { readonly [Verb in keyof EmbeddedEngine]?: Readonly<Record<string, true>> }

export const scheduleOptions: OptionNames<ScheduleOptions<Kind>> = {
  kind: true,
  request: true,
  cron: true,
  timeZone: true,
  everyMs: true,
  project: true,
  mode: true,
  priority: true,
  missed: true,
}

export const uploadFields: OptionNames<Parameters<EmbeddedEngine["createUpload"]>[0]> = {
  format: true,
  declaredSeconds: true,
}
export const stopOptions: OptionNames<OptionsOf<EmbeddedEngine["stop"]>> = { drainMs: true }

export const listQuery: OptionNames<ListQuery> = {
  project: true,
  kind: true,
  mode: true,
  status: true,
  keyId: true,
  errorCode: true,
  createdFrom: true,
  createdTo: true,
  tags: true,
  metadata: true,
  after: true,
  limit: true,
}
export const countQuestion: OptionNames<OptionsOf<OperatorVerbs<Kind>["count"]>> = {
  finishedWithinMs: true,
  project: true,
  tags: true,
  metadata: true,
}
export const queueQuestion: OptionNames<OptionsOf<OperatorVerbs<Kind>["measureQueue"]>> = { project: true }
export const priceOptions: OptionNames<OptionsOf<OperatorVerbs<Kind>["setPrice"]>> = {
  name: true,
  currency: true,
  unitAmounts: true,
  active: true,
}
export const spendCapOptions: OptionNames<SpendCapAmounts> = { currency: true, day: true, month: true }
export const projectLimitOptions: OptionNames<ProjectLimits> = { concurrency: true }
export const adoptionOptions: OptionNames<OptionsOf<OperatorVerbs<Kind>["adoptCopy"]>> = { unfinished: true }
export const periodOptions: OptionNames<OptionsOf<OperatorVerbs<Kind>["listCharges"]>> = { from: true, to: true }

export const eventTypes: { readonly [Type in JobEventType]: true } = {
  queued: true,
  active: true,
  progress: true,
  attempt_failed: true,
  completed: true,
  failed: true,
  erased: true,
}
