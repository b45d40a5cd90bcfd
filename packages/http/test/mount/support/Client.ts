import { randomUUID } from "node:crypto"
import { publicUrl } from "./servers.ts"

/** A client of a mounted service. It is told absolute URLs of a host that it reaches at another place. */
export class Client {
  readonly #port: number
  readonly #secret: string | undefined

  constructor(port: number, secret: string | undefined) {
    this.#port = port
    this.#secret = secret
  }

  /** Where an absolute URL is in this test. */
  local(url: string): string {
    if (!url.startsWith(`${publicUrl}/v1/`)) throw new Error(`not below the public URL: ${url}`)
    return `http://127.0.0.1:${this.#port}${new URL(url).pathname}${new URL(url).search}`
  }

  send(
    method: string,
    path: string,
    json?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Response> {
    return fetch(`http://127.0.0.1:${this.#port}/api/kiln${path}`, {
      method,
      headers: {
        ...(this.#secret !== undefined && { authorization: `Bearer ${this.#secret}` }),
        ...(json !== undefined && { "content-type": "application/json", "idempotency-key": randomUUID() }),
        ...headers,
      },
      ...(json !== undefined && { body: JSON.stringify(json) }),
    })
  }

  /** The answer as status and decoded body. */
  async ask(method: string, path: string, json?: unknown, headers?: Readonly<Record<string, string>>) {
    const response = await this.send(method, path, json, headers)
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) }
  }

  /** Polls until the job has ended; its last answer. */
  async finished(location: string) {
    const path = location.slice(publicUrl.length)
    while (true) {
      const { body, status } = await this.ask("GET", path)
      if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
      if (["done", "failed"].includes(body.status)) return body
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
}
