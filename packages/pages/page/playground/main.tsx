import type { PageKind } from "@kiln/http"
import { asObject, Brand, CodeSample, fieldsOf, type Json, type SchemaField } from "@kiln/pages/ui"
import { render } from "preact"
import { useEffect, useMemo, useState } from "preact/hooks"
import "@kiln/pages/theme.css"
import "./style.css"
import { config, send } from "./api.ts"
import { Composer, type Draft, newDraft, sampleOf } from "./Composer.tsx"
import { Gallery } from "./Gallery.tsx"
import { KeyBar } from "./KeyBar.tsx"
import { type Keys, useKeys } from "./keys.ts"
import { usePrices } from "./prices.ts"
import { ResultPanel } from "./Result.tsx"
import { kindOfFragment, setFragment, useRuns } from "./runs.ts"

const names: Readonly<Record<string, string>> = {
  transcription: "Transcribe",
  speech_synthesis: "Speak",
  voice_turn: "Talk",
  image_generation: "Draw",
}

const labelOf = ({ name }: PageKind): string => names[name] ?? name.replaceAll("_", " ")

/** A kind that needs no file can be tried at once. */
const firstKind = (): PageKind | undefined =>
  kindOfFragment() ?? config.kinds.find(({ name }) => name === "speech_synthesis") ?? config.kinds[0]

const Kinds = ({ kind, onKind }: { readonly kind: PageKind; readonly onKind: (kind: PageKind) => void }) => (
  <fieldset class="kinds">
    <legend class="quiet-live">Kind of job</legend>
    {config.kinds.map((one) => (
      <label key={one.name}>
        <input type="radio" name="kind" checked={one.name === kind.name} onChange={() => onKind(one)} />
        <span>{labelOf(one)}</span>
      </label>
    ))}
  </fieldset>
)

const Workbench = ({
  keys,
  kind: first,
  onOtherKey,
  schemas,
}: {
  readonly schemas: Json
  readonly kind: PageKind
  readonly keys: Keys
  readonly onOtherKey: () => void
}) => {
  const runs = useRuns(keys)
  const prices = usePrices(keys.key?.text, runs.list.length)
  const [kind, setKind] = useState(first)
  const fields: ReadonlyArray<SchemaField> = useMemo(
    () => fieldsOf({ $ref: `#/${kind.schema}` }, schemas).filter(({ name }) => name !== kind.upload),
    [kind],
  )
  const [drafts, setDrafts] = useState<Readonly<Record<string, Draft>>>({})
  const draft = drafts[kind.name] ?? newDraft(kind, fields)
  const choose = (next: PageKind): void => {
    setKind(next)
    setFragment(next)
    if (!runs.isBusy && runs.current?.kind.name !== next.name)
      runs.show(runs.list.find((run) => run.kind.name === next.name && run.state !== undefined))
  }
  const onNewKey = config.playground
    ? () => {
        keys.use(undefined)
        runs.retry?.()
      }
    : undefined
  return (
    <>
      <Kinds kind={kind} onKind={choose} />
      <div class="bench">
        <Composer
          key={kind.name}
          kind={kind}
          fields={fields}
          draft={draft}
          onDraft={(next) => setDrafts((all) => ({ ...all, [kind.name]: next }))}
          keys={keys}
          price={prices[kind.name]}
          runs={runs}
        />
        <ResultPanel run={runs.current} runs={runs} onNewKey={onNewKey} onOtherKey={onOtherKey} />
        <section class="card program" aria-labelledby="code-title">
          <header>
            <h2 id="code-title">The same request in your program</h2>
          </header>
          <CodeSample request={sampleOf(kind, fields, draft)} />
        </section>
      </div>
      <Gallery runs={runs} />
    </>
  )
}

const App = () => {
  const keys = useKeys()
  const [isKeyOpen, setKeyOpen] = useState(!config.playground && keys.key === undefined)
  const [schemas, setSchemas] = useState<Json>()
  const [isLost, setLost] = useState(false)
  useEffect(() => {
    const load = async (): Promise<void> => {
      try {
        const { body } = await send(undefined, "GET", "/openapi.json")
        setSchemas(asObject(asObject(body["components"])["schemas"]))
      } catch {
        setLost(true)
        setTimeout(() => void load(), 3_000)
      }
    }
    void load()
  }, [])
  const kind = firstKind()
  return (
    <>
      <header class="bar">
        <Brand href={`${config.url}/`} />
        <nav aria-label="Pages">
          <a href={`${config.url}/`} aria-current="page">
            Playground
          </a>
          <a href={`${config.url}/docs`}>Docs</a>
          <a href={`${config.url}/openapi.json`}>OpenAPI</a>
        </nav>
      </header>
      <main>
        <div class="intro">
          <h1>Try the service</h1>
          <KeyBar keys={keys} isOpen={isKeyOpen} onOpen={setKeyOpen} />
        </div>
        {schemas === undefined ? (
          <p class="loading" role="status">
            {isLost ? "The service cannot be reached. Trying again…" : "Loading…"}
          </p>
        ) : kind === undefined ? (
          <p>This service offers no kinds of jobs.</p>
        ) : (
          <Workbench keys={keys} kind={kind} schemas={schemas} onOtherKey={() => setKeyOpen(true)} />
        )}
      </main>
    </>
  )
}

const place = document.getElementById("app")
if (place !== null) render(<App />, place)
