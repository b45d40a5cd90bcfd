import type { InputOf, OperationName, ResultOf, RouteOf } from "../src/api/operations.ts"

const tokenName = "kiln operator token"

/** The token of this tab; it is gone when the tab closes. */
export const readToken = (): string | null => sessionStorage.getItem(tokenName)
export const writeToken = (token: string | null): void =>
  token === null ? sessionStorage.removeItem(tokenName) : sessionStorage.setItem(tokenName, token)

/** An error of the API, or of the connection. */
export class RequestFailed extends Error {
  readonly status: number
  readonly code: string
  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

const headers = (): Record<string, string> => {
  const token = readToken()
  return token === null ? {} : { authorization: `Bearer ${token}` }
}

const failureOf = async (response: Response): Promise<RequestFailed> => {
  try {
    const { error } = (await response.json()) as { readonly error: { readonly code: string; readonly message: string } }
    return new RequestFailed(response.status, error.code, error.message)
  } catch {
    return new RequestFailed(response.status, "unreadable", `The service responded with ${response.status}.`)
  }
}

const send = async (path: string, init: RequestInit): Promise<Response> => {
  const response = await fetch(`admin/v1${path}`, init).catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "AbortError") throw error
    throw new RequestFailed(0, "offline", "The service cannot be reached.")
  })
  if (!response.ok) throw await failureOf(response)
  return response
}

interface Given<Name extends OperationName> {
  readonly id?: string
  readonly query?: InputText<InputOf<Name>["query"]>
  readonly payload?: InputOf<Name>["payload"]
  readonly signal?: AbortSignal | undefined
}

/** Query parameters as texts. */
type InputText<Query> = {
  readonly [Field in keyof Query]?: Query[Field] extends number | undefined ? string : Query[Field]
}

/** Calls an operation. The route is checked against the declaration. */
export const call = async <Name extends OperationName>(
  _name: Name,
  route: RouteOf<Name>,
  { id = "", payload, query = {}, signal }: Given<Name> = {},
): Promise<ResultOf<Name>> => {
  const [method = "GET", path = ""] = route.split(" ")
  const fields = Object.entries(query as Record<string, string | undefined>)
  const search = new URLSearchParams(
    fields.flatMap(([name, value]) => (value === undefined || value === "" ? [] : [[name, value]])),
  )
  const text = search.size === 0 ? "" : `?${search.toString()}`
  const response = await send(`${path.replace(":id", encodeURIComponent(id))}${text}`, {
    method,
    headers: { ...headers(), ...(method === "POST" && { "content-type": "application/json" }) },
    ...(method === "POST" && { body: JSON.stringify(payload ?? {}) }),
    ...(signal && { signal }),
  })
  return (await response.json()) as ResultOf<Name>
}

/** Calls `onOverview` for each overview that the service sends, until the signal aborts or the stream ends. */
export const watchOverview = async (
  onOverview: (overview: ResultOf<"overview">) => void,
  signal: AbortSignal,
): Promise<void> => {
  const response = await send("/overview/stream", { headers: headers(), signal })
  if (response.body === null) return
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ""
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    text += value
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const data = /^data: (.*)$/m.exec(text.slice(0, end))?.[1]
      text = text.slice(end + 2)
      if (data !== undefined) onOverview(JSON.parse(data) as ResultOf<"overview">)
    }
  }
}
