import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { json } from "node:stream/consumers"

// One second of silence: 8,000 samples of one byte.
const silence = Buffer.alloc(8_044, 128)
silence.write(
  "RIFF\x64\x1f\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\x40\x1f\0\0",
  "latin1",
)

export interface StandIn extends AsyncDisposable {
  readonly url: string
}

/** A fake speech server that accepts the key `right` and fails as the text asks. Calls `asked` for each request. */
export const openStandIn = async (asked: (status: number) => void): Promise<StandIn> => {
  let restarts = 0
  const answers: Readonly<Record<string, () => number>> = {
    "out of order for a moment": () => (restarts++ === 0 ? 503 : 200),
    "something it will not say": () => 451,
  }
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { text } = (await json(request)) as { readonly text: string }
    const status = request.headers.authorization === "Bearer right" ? (answers[text]?.() ?? 200) : 401
    asked(status)
    response.writeHead(status, { "content-type": "audio/wav" }).end(status === 200 && text !== "silent" ? silence : "")
  }
  const server = createServer((request, response) => void answer(request, response)).listen(0, "127.0.0.1")
  await once(server, "listening")
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/speech`,
    [Symbol.asyncDispose]: async () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
