import type { PageKind } from "@kiln/http"
import { type SampleRequest, type SchemaField } from "@kiln/pages/ui"
import { useRef, useState } from "preact/hooks"
import { config } from "./api.ts"
import type { Audio } from "./audio.ts"
import { AudioInput } from "./AudioInput.tsx"
import { bodyOf, Field, initialValues, lengthOf, type Values } from "./Fields.tsx"
import type { Keys } from "./keys.ts"
import { estimate, type KindPrice } from "./prices.ts"
import type { Runs } from "./runs.ts"
import { Bubbles, PushToTalk } from "./Talk.tsx"

const verbs: Readonly<Record<string, string>> = {
  transcription: "Transcribe",
  speech_synthesis: "Speak",
  voice_turn: "Send the question",
  image_generation: "Draw",
}

/** What someone tries first. */
const beginnings: Readonly<Record<string, Values>> = {
  speech_synthesis: { input: "Hello! This text was turned into speech by a job that survives crashes." },
  image_generation: { prompt: "A red lighthouse in the fog" },
  voice_turn: { max_output_tokens: "256" },
}

export interface Draft {
  readonly values: Values
  readonly audio: Audio | undefined
}

export const newDraft = (kind: PageKind, fields: ReadonlyArray<SchemaField>): Draft => ({
  values: { ...initialValues(fields), ...beginnings[kind.name] },
  audio: undefined,
})

const titleOf = (kind: PageKind, { audio, values }: Draft): string => {
  const text = Object.entries(values).find(
    ([name, value]) => name !== "max_output_tokens" && name !== "voice" && value !== "",
  )
  return (kind.upload === null ? text?.[1] : audio?.name) ?? kind.name
}

/** The body as far as it can be read. */
const tolerantBody = (fields: ReadonlyArray<SchemaField>, values: Values) => {
  try {
    return bodyOf(fields, values)
  } catch {
    return {}
  }
}

/** The request that the form would send, as code shows it. */
export const sampleOf = (
  kind: PageKind,
  fields: ReadonlyArray<SchemaField>,
  { audio, values }: Draft,
): SampleRequest => ({
  url: config.url,
  method: "POST",
  path: kind.path,
  poll: kind.poll,
  body: tolerantBody(fields, values),
  ...(kind.upload !== null && {
    upload: {
      field: kind.upload,
      file: audio?.name ?? "question.wav",
      format: audio?.format ?? "wav",
      seconds: audio?.seconds ?? 12.5,
    },
  }),
})

/** Returns what keeps a draft from being sent. */
const problemOf = (
  kind: PageKind,
  fields: ReadonlyArray<SchemaField>,
  { audio, values }: Draft,
): string | undefined => {
  if (kind.upload !== null && audio === undefined) return "Choose or record a file first, or use the example."
  for (const { isRequired, maxLength, name, type } of fields) {
    const text = values[name] ?? ""
    if (isRequired && text.trim() === "") return `${name} is required.`
    if (maxLength !== undefined && lengthOf(text) > maxLength) return `${name} is too long.`
    if (type === "json" && text.trim() !== "")
      try {
        JSON.parse(text)
      } catch {
        return `${name} must be JSON.`
      }
  }
  return undefined
}

/** What the job will cost. */
const Price = ({ draft, keys: { key }, price }: PriceProps) => {
  const cost = estimate(draft, price)
  return (
    <p class="help price">
      {key?.text.startsWith("kiln_live_") === true ? `Costs ${cost}.` : `Free with this key. With a live key: ${cost}.`}
    </p>
  )
}

interface PriceProps {
  readonly draft: Draft
  readonly keys: Keys
  readonly price: KindPrice
}

export const Composer = ({
  draft,
  fields,
  keys,
  kind,
  onDraft,
  price,
  runs,
}: {
  readonly kind: PageKind
  readonly fields: ReadonlyArray<SchemaField>
  readonly draft: Draft
  readonly onDraft: (draft: Draft) => void
  readonly keys: Keys
  /** `undefined` if its live jobs have no price, or none that this key may read. */
  readonly price: KindPrice | undefined
  readonly runs: Runs
}) => {
  const [problem, setProblem] = useState<string>()
  const form = useRef<HTMLFormElement>(null)
  const submit = (given: Draft): void => {
    const found = problemOf(kind, fields, given)
    setProblem(found)
    if (found !== undefined || runs.isBusy) return
    void runs.start({ kind, title: titleOf(kind, given), body: bodyOf(fields, given.values), audio: given.audio })
  }
  const shown = fields.filter(
    ({ choices, isRequired, type }) => !(type === "choice" && choices.length === 1 && !isRequired),
  )
  const isTalk = kind.name === "voice_turn"
  const verb = verbs[kind.name] ?? "Run"
  const inputs = shown.map((field) => (
    <Field
      key={field.name}
      prefix={kind.name}
      field={field}
      value={draft.values[field.name] ?? ""}
      ensureKey={keys.ensure}
      onChange={(value) => onDraft({ ...draft, values: { ...draft.values, [field.name]: value } })}
    />
  ))
  return (
    <form
      ref={form}
      class="card composer"
      aria-label="Request"
      onSubmit={(event) => {
        event.preventDefault()
        submit(draft)
      }}
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
          event.preventDefault()
          submit(draft)
        }
      }}
    >
      {kind.description !== null && <p class="about">{kind.description}</p>}
      {isTalk && <Bubbles runs={runs} />}
      {isTalk && (
        <PushToTalk
          isBusy={runs.isBusy}
          onAudio={(audio) => {
            onDraft({ ...draft, audio })
            submit({ ...draft, audio })
          }}
        />
      )}
      {kind.upload !== null &&
        (isTalk ? (
          <details class="more" open={draft.audio !== undefined && !draft.audio.name.startsWith("question.")}>
            <summary>Or send a file</summary>
            <AudioInput audio={draft.audio} onAudio={(audio) => onDraft({ ...draft, audio })} />
          </details>
        ) : (
          <AudioInput audio={draft.audio} onAudio={(audio) => onDraft({ ...draft, audio })} />
        ))}
      {isTalk ? (
        <details class="more">
          <summary>Settings</summary>
          <div class="inner">{inputs}</div>
        </details>
      ) : (
        inputs
      )}
      {(!isTalk || draft.audio !== undefined) && (
        <div class="submit">
          <button type="submit" class="primary big" aria-disabled={runs.isBusy}>
            {runs.isBusy ? "Working…" : verb}
          </button>
          <span class="help">
            <kbd>Ctrl</kbd> <kbd>Enter</kbd>
          </span>
        </div>
      )}
      {price !== undefined && <Price draft={draft} keys={keys} price={price} />}
      {problem !== undefined && (
        <p class="failure" role="alert">
          {problem}
        </p>
      )}
    </form>
  )
}
