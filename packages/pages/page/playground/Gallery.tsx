import { Badge, counted, humanName } from "@kiln/pages/ui"
import { useState } from "preact/hooks"
import type { Failure } from "./api.ts"
import { useKeepFocus } from "./keepFocus.ts"
import { Problem } from "./Problem.tsx"
import type { Run, Runs } from "./runs.ts"

const Preview = ({ run }: { readonly run: Run }) => {
  const url = run.state?.output?.["image_url"]
  return typeof url === "string" && run.isDeleted !== true ? <img src={url} alt="" loading="lazy" /> : null
}

/** The jobs of this tab, newest first. */
export const Gallery = ({ runs }: { readonly runs: Runs }) => {
  const [problem, setProblem] = useState<Failure>()
  const keep = useKeepFocus<HTMLElement>()
  const known = runs.list.filter(({ id }) => id !== undefined)
  if (known.length === 0) return null
  return (
    <section class="card gallery" aria-labelledby="gallery-title" {...keep}>
      <header>
        <h2 id="gallery-title">This tab's jobs</h2>
        <span class="aside">{counted(known.length, "job")}</span>
      </header>
      {problem !== undefined && <Problem failure={problem} />}
      <ul>
        {known.map((run) => (
          <li key={run.tag} class={run.tag === runs.current?.tag ? "current" : ""}>
            <Preview run={run} />
            <button
              type="button"
              class="link"
              aria-current={run.tag === runs.current?.tag}
              onClick={() => runs.show(run)}
            >
              <span class="kind">{humanName(run.kind.name)}</span>
              <span class="title">{run.title}</span>
            </button>
            <Badge>{run.isDeleted === true ? "deleted" : (run.state?.status ?? run.lastStatus ?? "accepted")}</Badge>
            {run.isDeleted !== true && (
              <button
                type="button"
                class="small"
                aria-label={`Delete the data of ${run.title}`}
                onClick={() => void runs.erase(run).then(setProblem)}
              >
                Delete
              </button>
            )}
          </li>
        ))}
      </ul>
    </section>
  )
}
