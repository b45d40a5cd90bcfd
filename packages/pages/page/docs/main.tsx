import { asObject, Brand, type Json } from "@kiln/pages/ui"
import { render } from "preact"
import { useEffect, useState } from "preact/hooks"
import { guides } from "../documentation.ts"
import "@kiln/pages/theme.css"
import "./style.css"
import { ErrorsView } from "./Errors.tsx"
import { GuideView } from "./Guide.tsx"
import { config, operationsOf, type Operation } from "./openApi.ts"
import { Home, OperationView } from "./Reference.tsx"

type Place = ReadonlyArray<string>

const readPlace = (): Place =>
  location.hash
    .replace(/^#\/?/, "")
    .split("/")
    .filter((part) => part !== "")

const usePlace = (): Place => {
  const [place, setPlace] = useState(readPlace)
  useEffect(() => {
    const follow = (): void => setPlace(readPlace())
    addEventListener("hashchange", follow)
    return () => removeEventListener("hashchange", follow)
  }, [])
  return place
}

const Link = ({
  children,
  href,
  place,
}: {
  readonly href: string
  readonly place: Place
  readonly children: string
}) => (
  <li>
    <a href={href} aria-current={href === `#/${place.slice(0, 2).join("/")}` ? "page" : undefined}>
      {children}
    </a>
  </li>
)

const Contents = ({ operations, place }: { readonly operations: ReadonlyArray<Operation>; readonly place: Place }) => {
  const [search, setSearch] = useState("")
  const wanted = search.trim().toLowerCase()
  const found = (...texts: ReadonlyArray<string>): boolean => texts.some((text) => text.toLowerCase().includes(wanted))
  const groups = [
    ...Map.groupBy(
      operations.filter(({ id, path, summary }) => found(id, path, summary)),
      ({ tag }) => tag,
    ),
  ]
  const shown = guides.filter(({ headings, title }) => found(title, ...headings.map(({ text }) => text)))
  return (
    <nav class="contents" aria-label="Contents">
      <label class="quiet-live" for="search">
        Search
      </label>
      <input
        id="search"
        type="search"
        placeholder="Search"
        value={search}
        onInput={({ currentTarget }) => setSearch(currentTarget.value)}
      />
      <ul>
        <Link href="#/" place={place}>
          Overview
        </Link>
        <Link href="#/errors" place={place}>
          Errors
        </Link>
      </ul>
      {groups.map(([tag, list]) => (
        <section key={tag}>
          <h2>{tag}</h2>
          <ul>
            {list.map(({ id, summary }) => (
              <Link key={id} href={`#/reference/${id}`} place={place}>
                {summary}
              </Link>
            ))}
          </ul>
        </section>
      ))}
      {shown.length > 0 && (
        <section>
          <h2>Guides</h2>
          <ul>
            {shown.map(({ name, title }) => (
              <Link key={name} href={`#/guides/${name}`} place={place}>
                {title}
              </Link>
            ))}
          </ul>
        </section>
      )}
      {groups.length + shown.length === 0 && <p class="faint">Nothing found.</p>}
    </nav>
  )
}

const View = ({
  document: given,
  operations,
  place,
}: {
  readonly document: Json
  readonly operations: ReadonlyArray<Operation>
  readonly place: Place
}) => {
  const [section, name, heading] = place
  const schemas = asObject(asObject(given["components"])["schemas"])
  if (section === "errors") return <ErrorsView operations={operations} schemas={schemas} />
  const operation = section === "reference" ? operations.find(({ id }) => id === name) : undefined
  if (operation !== undefined) return <OperationView key={operation.id} operation={operation} schemas={schemas} />
  const guide = section === "guides" ? guides.find((one) => one.name === name) : undefined
  if (guide !== undefined) return <GuideView key={guide.name} guide={guide} heading={heading} />
  return <Home document={given} operations={operations} />
}

const App = () => {
  const place = usePlace()
  const [document, setDocument] = useState<Json>()
  const [isLost, setLost] = useState(false)
  const [isOpen, setOpen] = useState(false)
  useEffect(() => {
    const load = async (): Promise<void> => {
      try {
        setDocument(asObject(await (await fetch(`${config.url}/openapi.json`)).json()))
      } catch {
        // The guides are in the page. Only the reference waits.
        setLost(true)
        setTimeout(() => void load(), 3_000)
      }
    }
    void load()
  }, [])
  const [section = "", name = ""] = place
  useEffect(() => {
    setOpen(false)
    if (place[2] === undefined) scrollTo(0, 0)
  }, [section, name])
  const operations = document === undefined ? [] : operationsOf(document)
  const needsDocument = section !== "guides"
  return (
    <>
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault()
          globalThis.document.getElementById("content")?.focus()
        }}
      >
        Skip to content
      </a>
      <header class="bar">
        <Brand href={`${config.url}/`} />
        <nav aria-label="Pages">
          <a href={`${config.url}/`}>Playground</a>
          <a href="#/" aria-current="page">
            Docs
          </a>
          <a href={`${config.url}/openapi.json`}>OpenAPI</a>
        </nav>
        <button type="button" class="menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Contents
        </button>
      </header>
      <div class={`columns${isOpen ? " open" : ""}`}>
        <Contents operations={operations} place={place} />
        <main id="content" tabIndex={-1}>
          {needsDocument && document === undefined ? (
            <p class="loading" role="status">
              {isLost ? "The service cannot be reached. Trying again…" : "Loading…"}
            </p>
          ) : (
            <View document={document ?? {}} operations={operations} place={place} />
          )}
        </main>
      </div>
    </>
  )
}

const place = document.getElementById("app")
if (place !== null) render(<App />, place)
