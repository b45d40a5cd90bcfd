import { count, humanName, type SchemaField } from "@kiln/pages/ui"
import { useRef, useState } from "preact/hooks"
import type { Key } from "./keys.ts"
import { config, Failure, follow, type JobState, send } from "./api.ts"

/** The texts of a form's fields, by name. */
export type Values = Readonly<Record<string, string>>

/** Length as the service counts it: Unicode code points. */
export const lengthOf = (text: string): number => [...text].length

/** Turns the texts into the fields of a request. Empty ones are left out. Throws if one is not JSON. */
export const bodyOf = (fields: ReadonlyArray<SchemaField>, values: Values): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    fields.flatMap(({ choices, name, type }) => {
      const text = values[name] ?? ""
      if (text.trim() === "") return []
      if (type === "choice") return [[name, choices.find((choice) => String(choice) === text) ?? text]]
      if (type === "boolean") return [[name, text === "true"]]
      if (type === "number" || type === "integer") return [[name, Number(text)]]
      return [[name, type === "json" ? (JSON.parse(text) as unknown) : text]]
    }),
  )

/** What a form begins with: the examples of required fields. */
export const initialValues = (fields: ReadonlyArray<SchemaField>): Values =>
  Object.fromEntries(
    fields.flatMap(({ choices, example, isRequired, name }) => {
      const value = example ?? (isRequired ? choices[0] : undefined)
      if (!isRequired || value === undefined) return []
      return [[name, typeof value === "string" ? value : JSON.stringify(value)]]
    }),
  )

const samples = new Map<string, string>()

/** Speaks a line with a voice, by a job like any other. Returns the URL of its audio. */
const sampleOf = async (key: string | undefined, voice: string): Promise<string> => {
  const kind = config.kinds.find(({ name }) => name === "speech_synthesis")
  if (kind === undefined) throw new Error("no speech")
  const { body } = await send(key, "POST", kind.path, { input: `Hello, I am ${voice}.`, voice })
  const seen: Array<JobState> = []
  const on = { state: (state: JobState) => void seen.push(state), trouble: () => undefined }
  await follow(kind.poll + String(body["id"]), key, on, new AbortController().signal)
  const url = seen.at(-1)?.output?.["audio_url"]
  if (typeof url !== "string")
    throw new Failure({ status: 0, code: "page_failed", message: "The sample could not be made." })
  return url
}

const VoiceField = ({
  ensureKey,
  field,
  id,
  onChange,
  value,
}: {
  readonly id: string
  readonly field: SchemaField
  readonly value: string
  readonly onChange: (value: string) => void
  readonly ensureKey: () => Promise<Key | undefined>
}) => {
  const [state, setState] = useState<string>()
  const player = useRef<HTMLAudioElement>(null)
  const play = async (): Promise<void> => {
    const voice = value === "" ? String(field.choices[0]) : value
    try {
      setState("Loading…")
      const url = samples.get(voice) ?? (await sampleOf((await ensureKey())?.text, voice))
      samples.set(voice, url)
      setState(undefined)
      if (player.current === null) return
      player.current.src = url
      await player.current.play()
    } catch (error) {
      samples.delete(voice)
      setState(error instanceof Failure ? error.message : "The sample cannot be played.")
    }
  }
  return (
    <>
      <div class="voice">
        <select id={id} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
          <option value="">default ({String(field.choices[0])})</option>
          {field.choices.map((choice) => (
            <option key={choice}>{choice}</option>
          ))}
        </select>
        <button type="button" onClick={() => void play()}>
          ▶ Listen
        </button>
      </div>
      <audio ref={player} />
      {state !== undefined && (
        <p class="help" role="status">
          {state}
        </p>
      )}
    </>
  )
}

/** What English texts have on average. Models count differently. */
const charactersPerToken = 4
const wordsPerToken = 0.75

/** One field of a request. */
export const Field = ({
  ensureKey,
  field,
  onChange,
  prefix,
  value,
}: {
  readonly prefix: string
  readonly field: SchemaField
  readonly value: string
  readonly onChange: (value: string) => void
  readonly ensureKey: () => Promise<Key | undefined>
}) => {
  const id = `${prefix}-${field.name}`
  const length = lengthOf(value)
  const tokens = field.name === "instructions" && length > 0 ? Math.ceil(length / charactersPerToken) : undefined
  const limit = field.name === "max_output_tokens" ? Number(value) : Number.NaN
  const words = limit > 0 ? Math.floor(limit * wordsPerToken) : undefined
  const isLong = field.maxLength !== undefined && length > field.maxLength
  const isText = field.type === "string" || field.type === "json"
  const placeholder =
    field.isRequired || field.example === undefined
      ? undefined
      : typeof field.example === "string"
        ? field.example
        : JSON.stringify(field.example)
  const shared = {
    id,
    value,
    onInput: ({ currentTarget }: { currentTarget: { value: string } }) => onChange(currentTarget.value),
  }
  return (
    <div class="form-field">
      <div class="label">
        <label for={id}>{humanName(field.name)}</label>
        {!field.isRequired && <span class="faint">optional</span>}
        {isText && field.maxLength !== undefined && (
          <span class={`counter${isLong ? " bad" : ""}`}>
            {tokens === undefined ? "" : `about ${count(tokens)} tokens, `}
            {count(length)} / {count(field.maxLength)}
          </span>
        )}
        {words !== undefined && <span class="counter">about {count(words)} words</span>}
      </div>
      {field.name === "voice" && field.type === "choice" ? (
        <VoiceField id={id} field={field} value={value} onChange={onChange} ensureKey={ensureKey} />
      ) : field.type === "choice" || field.type === "boolean" ? (
        <select {...shared}>
          {!field.isRequired && <option value="">default</option>}
          {(field.type === "boolean" ? ["true", "false"] : field.choices).map((choice) => (
            <option key={choice}>{choice}</option>
          ))}
        </select>
      ) : isText ? (
        <textarea
          {...shared}
          rows={field.isRequired ? 4 : 2}
          placeholder={placeholder}
          aria-invalid={isLong}
          spellcheck={field.type === "string"}
        />
      ) : (
        <input
          {...shared}
          type="number"
          min={field.minimum}
          max={field.maximum}
          step={field.type === "integer" ? 1 : "any"}
          placeholder={placeholder}
        />
      )}
      {field.description !== "" && <p class="help">{field.description}</p>}
    </div>
  )
}
