import type { PageKind } from "@kiln/http"
import type { Json } from "@kiln/pages/ui"
import { useEffect, useRef, useState } from "preact/hooks"
import { config, Failure, follow, isFinished, type JobState, send, stateOf, type Trouble } from "./api.ts"
import type { Audio } from "./audio.ts"
import type { Keys } from "./keys.ts"
import { type Transfer, upload } from "./upload.ts"

/** A job of this tab, from the click to its end. */
export interface Run {
  /** Identifies it before it has an `id`. */
  readonly tag: number
  readonly kind: PageKind
  readonly title: string
  readonly step: "sending" | "creating" | "following" | "ended"
  readonly startedAt: number
  readonly id?: string | undefined
  readonly createdAt?: number | undefined
  readonly processingAt?: number | undefined
  readonly finishedAt?: number | undefined
  readonly transfer?: Transfer | undefined
  readonly state?: JobState | undefined
  /** The status before the page was loaded. */
  readonly lastStatus?: JobState["status"] | undefined
  readonly trouble?: Trouble | undefined
  readonly failure?: Failure | undefined
  /** What the visitor said, for a voice turn. */
  readonly said?: Audio | undefined
  /** The request, until the page is loaded again. */
  readonly wish?: Wish | undefined
  readonly isDeleted?: boolean
}

/** The fields of a request, apart from the upload. */
export interface Wish {
  readonly kind: PageKind
  readonly title: string
  readonly body: Json
  readonly audio: Audio | undefined
}

export interface Runs {
  /** Newest first. */
  readonly list: ReadonlyArray<Run>
  readonly current: Run | undefined
  readonly isBusy: boolean
  readonly start: (wish: Wish) => Promise<void>
  readonly cancel: () => void
  readonly show: (run: Run | undefined) => void
  /** Reads a job again, for new links. */
  readonly refresh: (run: Run) => Promise<void>
  /** Deletes a job's data. Returns the failure. */
  readonly erase: (run: Run) => Promise<Failure | undefined>
  /** Sends the request of the shown job again; `undefined` if this page does not have it. */
  readonly retry: (() => void) | undefined
}

const stored = "kiln playground jobs"
const mostStored = 50

interface StoredRun {
  readonly id: string
  readonly kind: string
  readonly title: string
  readonly startedAt: number
  readonly isDeleted: boolean
  readonly lastStatus?: JobState["status"] | undefined
}

const readStored = (): ReadonlyArray<Run> => {
  const runs = JSON.parse(sessionStorage.getItem(stored) ?? "[]") as ReadonlyArray<StoredRun>
  return runs.flatMap(({ kind: name, ...run }, tag) => {
    const kind = config.kinds.find((one) => one.name === name)
    return kind === undefined ? [] : [{ ...run, kind, tag: -1 - tag, createdAt: run.startedAt, step: "ended" as const }]
  })
}

const store = (runs: ReadonlyArray<Run>): void => {
  const kept = runs.flatMap(({ id, isDeleted = false, kind, lastStatus, startedAt, state, title }) =>
    id === undefined
      ? []
      : [{ id, kind: kind.name, title, startedAt, isDeleted, lastStatus: state?.status ?? lastStatus }],
  )
  sessionStorage.setItem(stored, JSON.stringify(kept.slice(0, mostStored)))
}

/** `#speech_synthesis/job_…`: the page finds its job again after a reload. */
const readFragment = () => {
  const [name, id] = location.hash.slice(1).split("/")
  return { kind: config.kinds.find((one) => one.name === name), id }
}

/** The kind that a link asks for: `#speech_synthesis`. */
export const kindOfFragment = (): PageKind | undefined => readFragment().kind

export const setFragment = (kind: PageKind, id?: string): void => {
  const fragment = `#${kind.name}${id === undefined ? "" : `/${id}`}`
  if (location.hash !== fragment) history.replaceState(null, "", fragment)
}

const asFailure = (error: unknown): Failure =>
  error instanceof Failure
    ? error
    : new Failure({ status: 0, code: "page_failed", message: error instanceof Error ? error.message : String(error) })

/** Notes what a poll answered, and when something was seen for the first time. */
const withState = (run: Run, state: JobState): Run => {
  const now = Date.now()
  const begins = state.status !== "queued" && run.processingAt === undefined
  return {
    ...run,
    state,
    isDeleted: state.warning_code === "data_deleted",
    ...(begins && { processingAt: now }),
    ...(isFinished(state) && run.finishedAt === undefined && { finishedAt: now }),
  }
}

let tags = 0

export const useRuns = (keys: Keys): Runs => {
  const [list, setList] = useState<ReadonlyArray<Run>>(readStored)
  const [shown, setShown] = useState<number | undefined>()
  const controller = useRef<AbortController | undefined>(undefined)

  const change = (tag: number, next: Partial<Run>): void =>
    setList((runs) => {
      const changed = runs.map((run) => (run.tag === tag ? { ...run, ...next } : run))
      store(changed)
      return changed
    })
  const add = (run: Run): void => {
    setList((runs) => [run, ...runs])
    setShown(run.tag)
  }

  const watch = async (run: Run, id: string, key: string | undefined, signal: AbortSignal): Promise<void> => {
    await follow(
      run.kind.poll + id,
      key,
      {
        trouble: (trouble) => change(run.tag, { trouble }),
        state: (state) => setList((runs) => runs.map((one) => (one.tag === run.tag ? withState(one, state) : one))),
      },
      signal,
    )
    if (!signal.aborted) change(run.tag, { step: "ended" })
  }

  const guarded = async (run: Run, work: (signal: AbortSignal) => Promise<void>): Promise<void> => {
    controller.current?.abort()
    const own = new AbortController()
    controller.current = own
    try {
      await work(own.signal)
    } catch (error) {
      const isCanceled = error instanceof DOMException && error.name === "AbortError"
      change(run.tag, {
        step: "ended",
        trouble: undefined,
        transfer: undefined,
        failure: isCanceled
          ? new Failure({ status: 0, code: "canceled", message: "Canceled. Nothing was created." })
          : asFailure(error),
      })
    }
  }

  const start = async (wish: Wish): Promise<void> => {
    const { audio, body, kind, title } = wish
    const step = audio === undefined ? "creating" : "sending"
    const run: Run = { tag: ++tags, kind, title, step, startedAt: Date.now(), said: audio, wish }
    add(run)
    await guarded(run, async (signal) => {
      const key = (await keys.ensure())?.text
      const sent =
        audio === undefined || kind.upload === null
          ? {}
          : { [kind.upload]: await upload(key, audio, (transfer) => change(run.tag, { transfer }), signal) }
      change(run.tag, { step: "creating", transfer: undefined })
      const answer = await send(key, "POST", kind.path, { ...body, ...sent }, signal)
      const id = String(answer.body["id"])
      setFragment(kind, id)
      change(run.tag, { id, createdAt: Date.now(), step: "following" })
      await watch(run, id, key, signal)
    })
  }

  const open = async (run: Run): Promise<void> => {
    const { id } = run
    if (id === undefined) return
    setFragment(run.kind, id)
    change(run.tag, { step: "following", failure: undefined })
    await guarded(run, (signal) => watch(run, id, keys.key?.text, signal))
  }

  const show = (run: Run | undefined): void => {
    setShown(run?.tag)
    // A reload must not find what was put away.
    if (run === undefined && current !== undefined) setFragment(current.kind)
    if (run !== undefined && run.state === undefined && run.failure === undefined) void open(run)
    else if (run?.id !== undefined) setFragment(run.kind, run.id)
  }

  useEffect(() => {
    const { id, kind } = readFragment()
    if (id === undefined || kind === undefined) return
    const known = list.find((run) => run.id === id)
    const run: Run = known ?? { tag: ++tags, kind, id, title: id, step: "following", startedAt: Date.now() }
    if (known === undefined) add(run)
    else setShown(known.tag)
    void open(run)
  }, [])

  const refresh = async (run: Run): Promise<void> => {
    const { body } = await send(keys.key?.text, "GET", run.kind.poll + (run.id ?? ""))
    change(run.tag, { state: stateOf(body) })
  }

  const erase = async (run: Run): Promise<Failure | undefined> => {
    try {
      await send(keys.key?.text, "DELETE", `${run.kind.poll}${run.id ?? ""}/data`)
      change(run.tag, { isDeleted: true })
      await refresh(run)
      return undefined
    } catch (error) {
      return asFailure(error)
    }
  }

  const current = list.find((run) => run.tag === shown)
  const wish = current?.wish
  return {
    list,
    current,
    isBusy: current !== undefined && current.step !== "ended",
    start,
    cancel: () => controller.current?.abort(),
    show,
    refresh,
    erase,
    retry: wish === undefined ? undefined : () => void start(wish),
  }
}
