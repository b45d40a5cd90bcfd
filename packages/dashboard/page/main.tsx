import { render } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { Brand } from "@kiln/pages/ui"
import "uplot/dist/uPlot.min.css"
import "@kiln/pages/theme.css"
import "./style.css"
import "./parts.css"
import type { ResultOf } from "../src/api/operations.ts"
import { call, RequestFailed, readToken, watchOverview, writeToken } from "./api.ts"
import { SignIn } from "./components/SignIn.tsx"
import { linkTo, type Place, usePlace } from "./router.ts"
import { SessionContext } from "./session.ts"
import { AuditView } from "./views/Audit.tsx"
import { DeliveriesView } from "./views/Deliveries.tsx"
import { FailuresView } from "./views/Failures.tsx"
import { JobView } from "./views/Job.tsx"
import { JobsView } from "./views/Jobs.tsx"
import { KeysView } from "./views/Keys.tsx"
import { OverviewView } from "./views/Overview.tsx"
import { PricesView } from "./views/Prices.tsx"
import { ProjectsView } from "./views/Projects.tsx"
import { SchedulesView } from "./views/Schedules.tsx"
import { SwitchesView } from "./views/Switches.tsx"
import { TypesView } from "./views/Types.tsx"
import { WorkersView } from "./views/Workers.tsx"

type Overview = ResultOf<"overview">

interface Live {
  readonly overview: Overview | undefined
  /** False while nothing arrives. */
  readonly isLive: boolean
}

const pollMs = 5_000

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Follows the overview while the tab is visible: by its stream, or by polling where the stream does not arrive. */
const useOverview = (isWanted: boolean): Live => {
  const [live, setLive] = useState<Live>({ overview: undefined, isLive: true })
  useEffect(() => {
    if (!isWanted) return undefined
    let controller = new AbortController()
    const show = (overview: Overview): void => setLive({ overview, isLive: true })
    const follow = async ({ signal }: AbortController): Promise<void> => {
      while (!signal.aborted) {
        await watchOverview(show, signal).catch(() => undefined)
        if (signal.aborted) return
        try {
          show(await call("overview", "GET /overview", { signal }))
        } catch {
          if (!signal.aborted) setLive(({ overview }) => ({ overview, isLive: false }))
        }
        await pause(pollMs)
      }
    }
    const start = (): void => {
      controller.abort()
      controller = new AbortController()
      if (document.visibilityState === "visible") void follow(controller)
    }
    start()
    document.addEventListener("visibilitychange", start)
    return () => {
      document.removeEventListener("visibilitychange", start)
      controller.abort()
    }
  }, [isWanted])
  return live
}

const sections = [
  ["", "Overview"],
  ["jobs", "Jobs"],
  ["failures", "Failures"],
  ["types", "Types"],
  ["workers", "Workers"],
  ["projects", "Projects"],
  ["keys", "Keys"],
  ["schedules", "Schedules"],
  ["deliveries", "Deliveries"],
  ["switches", "Switches"],
  ["prices", "Prices"],
  ["audit", "Audit"],
] as const

const View = ({ overview, place }: { readonly place: Place; readonly overview: Overview | undefined }) => {
  const [section = "", id] = place.path
  switch (section) {
    case "jobs":
      return id === undefined ? <JobsView query={place.query} /> : <JobView id={id} />
    case "failures":
      return <FailuresView />
    case "types":
      return <TypesView />
    case "projects":
      return <ProjectsView />
    case "keys":
      return <KeysView />
    case "schedules":
      return <SchedulesView />
    case "deliveries":
      return <DeliveriesView />
    case "switches":
      return <SwitchesView />
    case "prices":
      return <PricesView />
    case "audit":
      return <AuditView />
    case "workers":
      return overview === undefined ? <p class="loading">Loading…</p> : <WorkersView overview={overview} />
    default:
      return overview === undefined ? <p class="loading">Loading…</p> : <OverviewView overview={overview} />
  }
}

const Shell = ({
  onSignIn,
  onSignOut,
  session,
}: {
  readonly session: ResultOf<"session">
  readonly onSignIn: () => void
  readonly onSignOut: (() => void) | undefined
}) => {
  const place = usePlace()
  const [section = ""] = place.path
  const { isLive, overview } = useOverview(section === "" || section === "workers")
  const title = sections.find(([path]) => path === section)?.[1] ?? "Overview"
  useEffect(() => void (document.title = `${title} · kiln`), [title])
  const main = `${section} ${place.path[1] ?? ""}`
  useEffect(() => scrollTo(0, 0), [main])
  const nav = useRef<HTMLElement>(null)
  // A phone shows a part of the sections.
  useEffect(() => {
    const current = nav.current?.querySelector("[aria-current]")
    current?.scrollIntoView({ block: "nearest", inline: "center" })
  }, [section])
  return (
    <SessionContext.Provider value={{ session, signIn: onSignIn, signOut: onSignOut }}>
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault()
          document.getElementById("content")?.focus()
        }}
      >
        Skip to content
      </a>
      <header class="bar">
        <Brand href={linkTo([])} />
        <nav aria-label="Sections" ref={nav}>
          {sections.map(([path, name]) => (
            <a key={path} href={linkTo(path === "" ? [] : [path])} aria-current={path === section ? "page" : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <div class="who">
          {!isLive && <span class="warn">not updating</span>}
          <span class="faint" title={`roles: ${session.roles.join(", ")}`}>
            {session.actor} · {session.roles.includes("operate") ? "operate" : "view"}
          </span>
          {onSignOut === undefined ? (
            <button type="button" class="small" onClick={onSignIn}>
              Sign in
            </button>
          ) : (
            <button type="button" class="small" onClick={onSignOut}>
              Sign out
            </button>
          )}
        </div>
      </header>
      <main id="content" tabIndex={-1}>
        <View place={place} overview={overview} />
      </main>
      <footer class="faint">
        {session.version !== null && <>kiln {session.version} · </>}
        <a href="admin/v1/openapi.json">API</a>
      </footer>
    </SessionContext.Provider>
  )
}

type Start =
  | { readonly is: "loading" }
  | { readonly is: "ready"; readonly session: ResultOf<"session"> }
  | { readonly is: "asking"; readonly why: string; readonly session?: ResultOf<"session"> }

const App = () => {
  const [start, setStart] = useState<Start>({ is: "loading" })
  const load = async (): Promise<void> => {
    try {
      setStart({ is: "ready", session: await call("session", "GET /session") })
    } catch (error) {
      const status = error instanceof RequestFailed ? error.status : 0
      if (status === 401 && readToken() !== null) {
        writeToken(null)
        return load()
      }
      if (status === 401) return setStart({ is: "asking", why: "Sign in with an operator's token." })
      await pause(pollMs)
      return load()
    }
  }
  useEffect(() => void load(), [])
  if (start.is === "loading") return <p class="loading">Loading…</p>
  if (start.is === "asking") {
    const { session } = start
    const back = session && (() => setStart({ is: "ready", session }))
    return <SignIn why={start.why} onDone={() => void load()} onCancel={back} />
  }
  const signOut = (): void => {
    writeToken(null)
    void load()
  }
  return (
    <Shell
      key={start.session.actor}
      session={start.session}
      onSignIn={() =>
        setStart({ is: "asking", why: "A token with the role operate allows changes.", session: start.session })
      }
      onSignOut={readToken() === null ? undefined : signOut}
    />
  )
}

const place = document.getElementById("app")
if (place !== null) render(<App />, place)
