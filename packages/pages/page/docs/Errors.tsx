import { asObject, type Json } from "@kiln/pages/ui"
import { useState } from "preact/hooks"
import { remedies } from "../documentation.ts"
import type { Operation } from "./openApi.ts"

/** The statuses with which each code is answered, by the descriptions of the responses. */
const statusesOf = (operations: ReadonlyArray<Operation>): ReadonlyMap<string, ReadonlySet<string>> => {
  const found = new Map<string, Set<string>>()
  for (const { responses } of operations)
    for (const { description, status } of responses)
      for (const [, code = ""] of description.matchAll(/`(\w+)`/g))
        if (Number(status) >= 400) found.set(code, (found.get(code) ?? new Set()).add(status))
  return found
}

/** Every error code with its status and its remedy. */
export const ErrorsView = ({
  operations,
  schemas,
}: {
  readonly operations: ReadonlyArray<Operation>
  readonly schemas: Json
}) => {
  const [search, setSearch] = useState("")
  const wanted = search.trim().toLowerCase()
  const statuses = statusesOf(operations)
  const failures = asObject(schemas["JobErrorCode"])["enum"]
  const isFailure = (code: string): boolean => Array.isArray(failures) && failures.includes(code)
  const rows = Object.entries(remedies).filter(
    ([code, remedy = ""]) =>
      wanted === "" || `${code} ${remedy} ${[...(statuses.get(code) ?? [])].join(" ")}`.toLowerCase().includes(wanted),
  )
  return (
    <article>
      <h1>Errors</h1>
      <p>
        Every error response has a <code>code</code> for programs and a <code>message</code> for people. A failed job
        has an <code>error_code</code>. <a href="#/guides/errors">The order of checks</a> says which error comes first.
      </p>
      <div class="search">
        <label for="error-search">Find a code</label>
        <input
          id="error-search"
          type="search"
          value={search}
          placeholder="rate_limited, 429, …"
          onInput={({ currentTarget }) => setSearch(currentTarget.value)}
        />
      </div>
      <dl class="fields errors" aria-label="Errors">
        {rows.map(([code, remedy]) => (
          <div key={code}>
            <dt>
              <code>{code}</code>
              <span class="type">
                {[...(statuses.get(code) ?? [])].join(", ") || (isFailure(code) ? "failed job" : "")}
              </span>
            </dt>
            <dd>{remedy}</dd>
          </div>
        ))}
      </dl>
      {rows.length === 0 && <p class="faint">No code matches.</p>}
    </article>
  )
}
