import { Badge, CopyButton, humanName, percent, size, span } from "@kiln/pages/ui"
import { remedies } from "../documentation.ts"
import { useEffect, useState } from "preact/hooks"
import type { Failure, JobState } from "./api.ts"
import { useKeepFocus } from "./keepFocus.ts"
import { Problem } from "./Problem.tsx"
import type { Run, Runs } from "./runs.ts"
import { SignedFile } from "./SignedFile.tsx"

/** The time now, as often as something shown depends on it. */
export const useNow = (isRunning: boolean, everyMs = 100): number => {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (!isRunning) return undefined
    const timer = setInterval(() => setNow(Date.now()), everyMs)
    return () => clearInterval(timer)
  }, [isRunning, everyMs])
  // A state of before the clock began is older than what it is compared with.
  return isRunning ? Math.max(now, Date.now() - everyMs) : Date.now()
}

const Sending = ({ onCancel, run: { transfer } }: { readonly run: Run; readonly onCancel: () => void }) => {
  if (transfer === undefined) return <p class="help">Preparing the upload…</p>
  const { sent, speed, total } = transfer
  const share = total === 0 ? 0 : sent / total
  return (
    <div class="sending">
      <progress max={total} value={sent} aria-label="Upload" />
      <p class="facts-line">
        <span>{percent(share)}</span>
        <span>
          {size(sent)} of {size(total)}
        </span>
        {speed > 0 && <span>{size(speed)}/s</span>}
        <button type="button" class="small" onClick={onCancel}>
          Cancel
        </button>
      </p>
    </div>
  )
}

/** The times of a job, as this page saw them. */
const Times = ({ now, run }: { readonly run: Run; readonly now: number }) => {
  const { createdAt, finishedAt, processingAt } = run
  if (createdAt === undefined || run.state === undefined || run.tag < 0) return null
  const waited = ((processingAt ?? finishedAt ?? now) - createdAt) / 1_000
  const ran = processingAt === undefined ? undefined : ((finishedAt ?? now) - processingAt) / 1_000
  return (
    <>
      <span>waited {span(waited)}</span>
      {ran !== undefined && ran > 0 && <span>ran {span(ran)}</span>}
    </>
  )
}

const money = (amount: string, currency: string): string => `${amount} ${currency.toUpperCase()}`

const Cost = ({ state: { billing } }: { readonly state: JobState }) => {
  if (billing === undefined || billing.status === "pending") return null
  if (billing.status !== "charged" || billing.amount === null) return <span>not charged</span>
  const items = billing.line_items.map(({ meter, quantity }) => `${quantity} ${meter.replaceAll("_", " ")}`)
  return (
    <span>
      charged {money(billing.amount, billing.currency)} ({items.join(", ")})
    </span>
  )
}

/** The steps of a job, and where it is. */
const Steps = ({ run }: { readonly run: Run }) => {
  const status = run.state?.status
  const isFailed = status === "failed" || run.failure !== undefined
  const names = [
    ...(run.said === undefined && run.transfer === undefined ? [] : ["sent"]),
    "accepted",
    "processing",
    isFailed ? "failed" : "done",
  ]
  const reached =
    status === "done" || status === "failed" || run.failure !== undefined
      ? names.length
      : status === "processing"
        ? names.length - 1
        : run.id === undefined
          ? names.length - 3
          : names.length - 2
  return (
    <ol class="steps" aria-label="Steps">
      {names.map((name, n) => (
        <li
          key={name}
          class={n < reached ? (isFailed && n === names.length - 1 ? "bad" : "reached") : n === reached ? "now" : ""}
        >
          {name}
        </li>
      ))}
    </ol>
  )
}

const Value = ({ name, value }: { readonly name: string; readonly value: unknown }) => {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2)
  const isProse = typeof value === "string"
  return (
    <div class="value">
      <div class="label">
        <span>{humanName(name)}</span>
        {isProse && <CopyButton text={text} />}
      </div>
      {isProse ? <blockquote>{text === "" ? <i>empty</i> : text}</blockquote> : <code>{text}</code>}
    </div>
  )
}

const warnings: Readonly<Record<string, string>> = {
  duration_mismatch: "The file's length differs from the declared one. The measured length counts.",
  no_speech_detected: "No speech was found in the file.",
  output_truncated: "The output was cut at its maximum length.",
  data_expired: "The data of this job has expired and is deleted.",
  data_deleted: "The data of this job is deleted.",
}

/** The output of a finished job: texts to copy, files to play, see and download. */
const Output = ({ onExpired, run }: { readonly run: Run; readonly onExpired: () => Promise<void> }) => {
  const output = Object.entries(run.state?.output ?? {})
  const files = output.filter(([name, value]) => name.endsWith("_url") && typeof value === "string")
  const values = output.filter(([name, value]) => !(name.endsWith("_url") && typeof value === "string"))
  const prose = values.filter(([, value]) => typeof value === "string" && value.length > 12)
  const small = values.filter(([name]) => !prose.some(([other]) => other === name))
  const base = run.id ?? "result"
  return (
    <>
      {prose.map(([name, value]) => (
        <Value key={name} name={name} value={value} />
      ))}
      {files.map(([name, url]) => (
        <SignedFile key={name} name={name} url={String(url)} baseName={base} alt={run.title} onExpired={onExpired} />
      ))}
      {small.length > 0 && (
        <dl class="small-values">
          {small.map(([name, value]) => (
            <div key={name}>
              <dt>{humanName(name)}</dt>
              <dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd>
            </div>
          ))}
        </dl>
      )}
    </>
  )
}

/** The text of a live region: read aloud when it changes. */
const announcement = (run: Run | undefined): string => {
  if (run === undefined) return ""
  if (run.failure !== undefined) return "Failed"
  if (run.trouble !== undefined) return "Connection lost, trying again"
  if (run.state !== undefined) return `Job ${run.state.status}`
  return run.step === "sending" ? "Sending the file" : "Creating the job"
}

const Waiting = ({ now, run }: { readonly run: Run; readonly now: number }) => {
  const seconds = run.trouble === undefined ? 0 : Math.max(0, Math.ceil((run.trouble.retryAt - now) / 1_000))
  const { progress } = run.state ?? {}
  return (
    <>
      {run.trouble !== undefined && (
        <p class="trouble" role="status">
          {run.trouble.message} Trying again {seconds === 0 ? "now" : `in ${seconds} s`}. The job goes on meanwhile.
        </p>
      )}
      {progress != null && (
        <div class="sending">
          <progress max={1} value={progress.value} aria-label="Progress" />
          {progress.message !== null && <p class="help">{progress.message}</p>}
        </div>
      )}
    </>
  )
}

const Failed = ({ onRetry, state }: { readonly state: JobState; readonly onRetry: (() => void) | undefined }) => {
  const code = state.error_code ?? "internal_error"
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{state.error_message ?? "The job failed."}</strong>
      </p>
      {remedies[code] !== undefined && <p>{remedies[code]}</p>}
      {onRetry !== undefined && (
        <div class="buttons">
          <button type="button" onClick={onRetry}>
            Run it again
          </button>
        </div>
      )}
      <p class="codes">
        <code>{code}</code>
      </p>
    </div>
  )
}

/** The ways on from a failure: there is always one. */
const WaysOn = ({ failure, isCreated, onNewKey, onOtherKey, runs }: WaysOnProps) => {
  const needsKey = failure.status === 401 || failure.code === "insufficient_scope"
  return (
    <>
      {failure.status === 401 && onNewKey !== undefined ? (
        <button type="button" class="primary" onClick={onNewKey}>
          Get a new sandbox key and try again
        </button>
      ) : (
        runs.retry !== undefined && (
          <button type="button" onClick={runs.retry}>
            {failure.code === "interrupted" ? "Send again" : isCreated ? "Run it again" : "Try again"}
          </button>
        )
      )}
      {needsKey && (
        <button type="button" onClick={onOtherKey}>
          Use another key
        </button>
      )}
      <button type="button" onClick={() => runs.show(undefined)}>
        Dismiss
      </button>
    </>
  )
}

interface WaysOnProps {
  readonly failure: Failure
  /** Whether a job exists, which another one would not replace. */
  readonly isCreated: boolean
  readonly runs: Runs
  readonly onNewKey: (() => void) | undefined
  readonly onOtherKey: () => void
}

export const ResultPanel = ({
  onNewKey,
  onOtherKey,
  run,
  runs,
}: {
  readonly run: Run | undefined
  readonly runs: Runs
  /** Makes a new sandbox key and tries again; `undefined` where the service issues none. */
  readonly onNewKey: (() => void) | undefined
  /** Opens the field for a key. */
  readonly onOtherKey: () => void
}) => {
  const isRunning = run !== undefined && run.step !== "ended"
  const now = useNow(isRunning)
  const [problem, setProblem] = useState<Failure>()
  const keep = useKeepFocus<HTMLElement>()
  useEffect(() => {
    setProblem(undefined)
    // On a phone, the result is below the form.
    const place = keep.ref.current
    if (run !== undefined && place !== null && place.getBoundingClientRect().top > innerHeight - 120)
      place.scrollIntoView({ block: "start" })
  }, [run?.tag])
  const status = run?.failure === undefined ? (run?.state?.status ?? (isRunning ? run.step : undefined)) : "failed"
  return (
    <section class="card result" aria-labelledby="result-title" {...keep}>
      <header>
        <h2 id="result-title">Result</h2>
        {status !== undefined && <Badge>{status}</Badge>}
      </header>
      <p class="quiet-live" role="status" aria-live="polite">
        {announcement(run)}
      </p>
      {run === undefined ? (
        <p class="nothing">The result of your job appears here.</p>
      ) : (
        <>
          <Steps run={run} />
          {run.step === "sending" && run.failure === undefined && <Sending run={run} onCancel={runs.cancel} />}
          {isRunning && <Waiting run={run} now={now} />}
          {run.failure !== undefined && (
            <Problem failure={run.failure}>
              <WaysOn
                failure={run.failure}
                isCreated={run.id !== undefined}
                runs={runs}
                onNewKey={onNewKey}
                onOtherKey={onOtherKey}
              />
            </Problem>
          )}
          {run.state?.status === "failed" && <Failed state={run.state} onRetry={runs.retry} />}
          {run.state?.warning_code != null && (
            <p class="trouble">{warnings[run.state.warning_code] ?? run.state.warning_code}</p>
          )}
          {run.state?.status === "done" && <Output run={run} onExpired={() => runs.refresh(run)} />}
          <p class="facts-line">
            {run.state !== undefined && <Times run={run} now={now} />}
            {run.state !== undefined && <Cost state={run.state} />}
            {run.id !== undefined && <code class="job-id">{run.id}</code>}
          </p>
          {run.step === "ended" && run.state !== undefined && run.isDeleted !== true && (
            <EraseButton onErase={async () => setProblem(await runs.erase(run))} />
          )}
          {problem !== undefined && <Problem failure={problem} />}
        </>
      )}
    </section>
  )
}

const focusOn = (button: HTMLElement | null): void => button?.focus()

/** Deletes after a second click. */
const EraseButton = ({ onErase }: { readonly onErase: () => Promise<void> }) => {
  const [step, setStep] = useState<"idle" | "sure" | "working">("idle")
  if (step === "idle")
    return (
      <p>
        <button type="button" class="small" onClick={() => setStep("sure")}>
          Delete its data
        </button>
      </p>
    )
  return (
    <p class="sure">
      <span>Delete texts and files of this job for good?</span>
      <button
        type="button"
        class="small primary danger"
        ref={focusOn}
        onClick={() => {
          setStep("working")
          void onErase().finally(() => setStep("idle"))
        }}
      >
        Delete
      </button>
      <button type="button" class="small" onClick={() => setStep("idle")}>
        Keep
      </button>
    </p>
  )
}
