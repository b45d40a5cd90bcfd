import { once } from "node:events"
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { pipeline } from "node:stream"
import { until } from "@kiln/service-lab"

const pollMs = 50

/**
 * A load balancer that does what most of them do: asks each process for `/readyz`, sends requests to those that are ready, in turn,
 * over kept connections. It repeats nothing: a request that fails fails for its caller.
 */
export class HealthProxy implements AsyncDisposable {
  readonly #ports: ReadonlyArray<number>
  readonly #ready = new Set<number>()
  readonly #agent = new Agent({ keepAlive: true })
  readonly #server = createServer((incoming, outgoing) => this.#pass(incoming, outgoing))
  readonly #polling: ReturnType<typeof setInterval>
  #turn = 0

  /** Listens on a free port, for the processes of these ports. */
  static async start(ports: ReadonlyArray<number>): Promise<HealthProxy> {
    const proxy = new HealthProxy(ports)
    await once(proxy.#server.listen(0, "127.0.0.1"), "listening")
    return proxy
  }

  private constructor(ports: ReadonlyArray<number>) {
    this.#ports = ports
    this.#polling = setInterval(() => void this.#poll(), pollMs)
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Waits until it has noticed that a process is ready, or is not. */
  async notices(port: number, isReady: boolean): Promise<void> {
    await until(() => (this.#ready.has(port) === isReady ? true : undefined))
  }

  async #poll(): Promise<void> {
    await Promise.all(
      this.#ports.map(async (port) => {
        const isReady = await fetch(`http://127.0.0.1:${port}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        )
        if (isReady) this.#ready.add(port)
        else this.#ready.delete(port)
      }),
    )
  }

  #pass(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const ready = [...this.#ready]
    const port = ready[this.#turn++ % ready.length]
    if (port === undefined) return void outgoing.writeHead(502).end("no process is ready")
    const { headers, method, url } = incoming
    const passing = request({ host: "127.0.0.1", port, agent: this.#agent, method, path: url, headers })
    // The process was ready when it was chosen, so the request must reach it before it is seen to stop.
    passing.flushHeaders()
    passing.on("response", (response) => {
      outgoing.writeHead(response.statusCode ?? 502, withoutConnection(response.headers))
      pipeline(response, outgoing, () => undefined)
    })
    passing.on("error", (error) =>
      outgoing.headersSent ? outgoing.destroy() : outgoing.writeHead(502).end(String(error)),
    )
    pipeline(incoming, passing, () => undefined)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#polling)
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    this.#agent.destroy()
  }
}

/** The header concerns one connection; the caller has another one. */
const withoutConnection = ({ connection: _, "keep-alive": __, ...headers }: IncomingMessage["headers"]) => headers
