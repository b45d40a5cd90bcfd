import { builtInKinds, createEngine, jobKind } from "@kiln/core"
import { memoryStore, testEngine } from "@kiln/testing"
import { expect, it } from "vitest"
import { z } from "zod"
import { messageOf } from "./support.ts"

/** Mistakes of programs that embed the engine, and the whole message that each gets. One can mend each from its message alone. */

const request = z.object({ n: z.number().optional(), to: z.string().optional() })
const run = async () => ({ output: {} })
const mail = jobKind({ name: "mail", request, run })
const page = jobKind({ name: "page", request, files: ["html"], run })
const spoken = jobKind({ name: "spoken", request, providers: ["speech"], run })

type Mistake = readonly [mistake: string, code: () => unknown, message: string]

const store = memoryStore()
const create = (options?: unknown) => createEngine(options as never)
const createWith = (options: object) => create({ store: memoryStore(), kinds: [mail], log: false, ...options })
const kindOf = (options: object) => jobKind({ name: "a", request, run, ...options })

const engines: ReadonlyArray<Mistake> = [
  ["no options", () => create(), "createEngine() expects its options as an object, not a value of type undefined"],
  [
    "nothing in them",
    () => create({}),
    "createEngine() lacks store (such as sqliteStore({ path })) and kinds (the job kinds it runs: your own, made with jobKind(), or builtInKinds())",
  ],
  [
    "a misspelled option",
    () => createWith({ onAttemptFail: run }),
    'unknown option "onAttemptFail" in createEngine(); did you mean "onAttemptFailed"?',
  ],
  [
    "a setting beside the options",
    () => createWith({ concurrency: 3 }),
    '"concurrency" is a setting: write createEngine({ settings: { concurrency: … } })',
  ],
  [
    "a misspelled setting",
    () => createWith({ settings: { concurency: 3 } }),
    'unknown setting "concurency" in settings; did you mean "concurrency"?',
  ],
  [
    "a number as text",
    () => createWith({ settings: { concurrency: "8" } }),
    "settings.concurrency must be a positive integer",
  ],
  [
    "a limit of a kind that the engine does not have",
    () => createWith({ settings: { limits: { perKind: { mial: 1 } } } }),
    'unknown kind "mial" in settings.limits.perKind; did you mean "mail"?',
  ],
  [
    "a rate of an unknown provider",
    () => createWith({ settings: { providers: { speach: { rate: { limit: 1, perMs: 1_000 } } } } }),
    'unknown setting "speach" in settings.providers; did you mean "speech"?',
  ],
  ["one kind without a list", () => createWith({ kinds: mail }), "kinds must be an array, such as kinds: [mail]"],
  [
    "builtInKinds without a call",
    () => createWith({ kinds: builtInKinds }),
    "kinds must be an array, not a function: call it",
  ],
  [
    "a kind from a module in an import cycle",
    () => createWith({ kinds: [undefined] }),
    "expected a kind created by jobKind() or JobKind(), not undefined: if it is imported, its module may import this one in a cycle",
  ],
  [
    "the options of a kind",
    () => createWith({ kinds: [{ name: "mail", request, run }] }),
    "expected a kind created by jobKind() or JobKind(), not its options: pass jobKind({ … })",
  ],
  [
    "builtInKinds() in the list",
    () => createWith({ kinds: [builtInKinds(), mail] }),
    "expected a kind created by jobKind() or JobKind(), not a list: spread it",
  ],
  [
    "a kind twice",
    () => createWith({ kinds: [mail, jobKind({ name: "mail", request, run })] }),
    'two kinds have the name "mail"; names must be unique',
  ],
  [
    "a path as the store",
    () => createWith({ store: "jobs.db" }),
    '"store" must be a kiln adapter, such as sqliteStore({ path })',
  ],
  [
    "a store without a call",
    () => createWith({ store: memoryStore }),
    '"store" must be a kiln adapter, such as sqliteStore({ path }), not a function: call it',
  ],
  [
    "a promise of a store",
    () => createWith({ store: Promise.resolve(store) }),
    '"store" must be a kiln adapter, such as sqliteStore({ path }), not a promise: await it',
  ],
  [
    "no place for files",
    () => createWith({ kinds: [page] }),
    "the kind page has files (html), and createEngine() lacks blobs (such as fileBlobs({ directory }))",
  ],
  [
    "no provider",
    () => createWith({ kinds: [spoken] }),
    "providers.sandbox or providers.live must include the providers of the kind spoken: speech",
  ],
  [
    "providers without a mode",
    () => createWith({ kinds: [spoken], providers: { speech: run } }),
    'unknown option "speech" in providers; known: sandbox, live',
  ],
  [
    "a misspelled provider",
    () => createWith({ kinds: [spoken], providers: { sandbox: { speach: run } } }),
    'unknown provider "speach" in providers.sandbox; did you mean "speech"?',
  ],
  [
    "a test engine",
    () => testEngine({ kind: [mail] } as never),
    'unknown option "kind" in testEngine(); did you mean "kinds"?',
  ],
]

const kinds: ReadonlyArray<Mistake> = [
  [
    "no request",
    () => kindOf({ request: undefined }),
    'job kind "a": request must be a Standard Schema (Zod, Valibot, ArkType, …) or a struct of Effect Schema',
  ],
  [
    "fields instead of a schema",
    () => kindOf({ request: { n: "number" } }),
    'job kind "a": request must be a Standard Schema (Zod, Valibot, ArkType, …) or a struct of Effect Schema',
  ],
  ["no run", () => kindOf({ run: undefined }), 'job kind "a": run must be a function'],
  ["retries", () => kindOf({ retries: 5 }), 'unknown option "retries" in a job kind; did you mean "retry"?'],
  [
    "a name with a space",
    () => kindOf({ name: "send mail" }),
    'job kind "send mail": a name must be 1 to 100 letters (A to Z, a to z), digits, "_", "-", ".", ":" and "/"',
  ],
  [
    "a limit of attempts",
    () => kindOf({ limits: { maxFailure: 5 } }),
    'unknown option "maxFailure" in limits of job kind "a"; did you mean "maxFailures"?',
  ],
  [
    "a time as text",
    () => kindOf({ limits: { attemptTimeoutMs: "30s" } }),
    'attemptTimeoutMs of job kind "a" must be a positive integer, not "30s"',
  ],
  [
    "no concurrency",
    () => kindOf({ limits: { concurrency: 0 } }),
    'concurrency of job kind "a" must be a positive integer, not 0',
  ],
  [
    "a rate as a number",
    () => kindOf({ limits: { rate: 10 } }),
    'rate of job kind "a" must be an object { limit, perMs, burst }',
  ],
  [
    "a built-in error code",
    () => kindOf({ errorCodes: ["content_rejected"] }),
    'job kind "a": "content_rejected" is a built-in error code, which any kind may use without declaring it',
  ],
]

it.each([
  ...engines.map((row) => ["createEngine", ...row] as const),
  ...kinds.map((row) => ["jobKind", ...row] as const),
])("%s: %s", async (_, __, code, message) => expect(await messageOf(code)).toBe(message))
