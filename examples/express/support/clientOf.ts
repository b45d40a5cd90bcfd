import { publicUrl } from "./startServer.ts"

/** Sends requests to a server that has kiln under `/api/kiln`, all with these headers. */
export const clientOf = (url: string, headers: Readonly<Record<string, string>>) => {
  const ask = async (method: string, path: string, json?: unknown) => {
    const type =
      json === undefined ? {} : { "content-type": "application/json", "idempotency-key": crypto.randomUUID() }
    const body = json === undefined ? null : JSON.stringify(json)
    const response = await fetch(`${url}${path}`, { method, headers: { ...headers, ...type }, body })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) }
  }
  /** Translates an absolute URL of the service to this test's server. */
  const here = (absolute: string): string => {
    if (!absolute.startsWith(`${publicUrl}/api/kiln/v1/`)) throw new Error(`not below the public URL: ${absolute}`)
    return url + absolute.slice(publicUrl.length)
  }
  return {
    ask,
    here,
    /** Creates a job and polls its `Location` until it is finished. */
    run: async (path: string, request: unknown) => {
      const created = await ask("POST", path, request)
      if (created.status !== 202) throw new Error(`${created.status} ${JSON.stringify(created.body)}`)
      const location = here(created.headers.get("location") ?? "").slice(url.length)
      while (true) {
        const { body, status } = await ask("GET", location)
        if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
        if (body.status === "done" || body.status === "failed") return { location, job: body }
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    },
    /** Downloads a file of a finished job. */
    download: async (absolute: string) => {
      const response = await fetch(here(absolute))
      if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
      return { mediaType: response.headers.get("content-type"), bytes: new Uint8Array(await response.arrayBuffer()) }
    },
  }
}
