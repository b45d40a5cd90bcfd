import { asObject, humanName } from "@kiln/pages/ui"
import { remedies } from "../documentation.ts"
import type { ComponentChildren } from "preact"
import type { Failure } from "./api.ts"

const ownRemedies: Readonly<Record<string, string>> = {
  offline: "Check the connection. The page can try again at any time; nothing was lost.",
  interrupted: "Send it again: the same upload goes on until its URL expires.",
  unreadable: "A proxy may be restarting. Try again in a moment.",
  canceled: "",
  page_failed: "Reload the page. If it happens again, please report it.",
}

const texts = (value: unknown): ReadonlyArray<string> => (Array.isArray(value) ? value.map(String) : [])

interface FieldProblem {
  readonly param: string
  readonly message: string
}

/** An error as the service gives it, with what to do about it. */
export const Problem = ({
  children,
  failure,
}: {
  readonly failure: Failure
  readonly children?: ComponentChildren
}) => {
  const fields = (Array.isArray(failure.details["errors"]) ? failure.details["errors"] : []).map(
    (problem) => asObject(problem) as unknown as FieldProblem,
  )
  const missing = texts(failure.details["missing"])
  const remedy = ownRemedies[failure.code] ?? remedies[failure.code]
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{failure.message}</strong>
      </p>
      {fields.length > 0 && (
        <ul>
          {fields.map(({ message, param }) => (
            <li key={param}>
              <b>{humanName(param)}</b>: {message}
            </li>
          ))}
        </ul>
      )}
      {missing.length > 0 && <p>Missing: {missing.join(", ")}</p>}
      {remedy !== undefined && remedy !== "" && <p>{remedy}</p>}
      {failure.retryAfter !== undefined && <p>It may work again in {failure.retryAfter} s.</p>}
      {children !== undefined && <div class="buttons">{children}</div>}
      {failure.status > 0 && (
        <p class="codes">
          <code>
            {failure.status} {failure.code}
          </code>
          {failure.requestId !== undefined && <code>{failure.requestId}</code>}
        </p>
      )}
    </div>
  )
}
