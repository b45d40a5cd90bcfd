import { join } from "node:path"
import { expect, it } from "vitest"
import { withBug } from "../../../../tests/planted/withBug.ts"
import {
  beginsBeforeCommits,
  freesOwnPieces,
  keepsRequestsApart,
  loadModules,
  readsWholeBodies,
  sendsCommitsTogether,
  sendsTogether,
  stopsForGoneClients,
} from "./shortcuts.ts"

it.each([
  {
    bug: "a body is taken before it has arrived",
    file: "server/NodeSource.ts",
    from: "!message.complete || message.readableLength !== announcedLength(message)",
    to: "message.readableLength === 0",
    holds: readsWholeBodies,
  },
  {
    bug: "requests share the headers of their responses",
    file: "server/Exchange.ts",
    from: `this.responseHeaders = { "x-request-id": requestId, "x-content-type-options": "nosniff" }`,
    to: `this.responseHeaders = Object.assign((Exchange.shared ??= {}), { "x-request-id": requestId })`,
    holds: keepsRequestsApart,
  },
  {
    bug: "a request goes on after its client has gone",
    file: "server/nodeListener.ts",
    from: "if (!response.writableEnded) fiber.interruptUnsafe()",
    to: "if (response.writableEnded) fiber.interruptUnsafe()",
    holds: stopsForGoneClients,
  },
  {
    bug: "of the replies of one turn, only the first is sent",
    file: "server/nodeListener.ts",
    from: "of sent) send",
    to: "of sent.slice(0, 1)) send",
    holds: sendsTogether,
  },
  {
    bug: "requests begin after the commit that they could share",
    file: "server/nodeListener.ts",
    from: "    schedule()\n    const begun = arrived",
    to: "    const begun = arrived",
    holds: beginsBeforeCommits,
  },
  {
    bug: "a reply is sent during the turn of its request",
    file: "server/nodeListener.ts",
    from: "setImmediate(sendDue)",
    to: "sendDue()",
    holds: sendsTogether,
  },
  {
    bug: "pieces of a body that another program may hold are freed",
    file: "server/NodeSource.ts",
    from: 'message.listenerCount("data") === 1',
    to: 'message.listenerCount("data") > 0',
    holds: freesOwnPieces,
  },
  {
    bug: "pieces of a body are left to the garbage collector",
    file: "server/NodeSource.ts",
    from: "if (isOurs(message)) markReleasable(piece)",
    to: "",
    holds: freesOwnPieces,
  },
  {
    bug: "of the replies that share a commit, only the first is sent",
    file: "server/nodeListener.ts",
    from: "process.nextTick(sendDue)",
    to: "process.nextTick(() => due.splice(0).slice(0, 1).forEach(([one, ended]) => send(one, ended)))",
    holds: sendsCommitsTogether,
  },
  {
    bug: "a reply is sent before the last of its commit is ready",
    file: "server/nodeListener.ts",
    from: "process.nextTick(sendDue)",
    to: "sendDue()",
    holds: sendsCommitsTogether,
  },
])("is detected where $bug", async ({ holds, ...edit }) => {
  expect(await holds(await withBug(join(import.meta.dirname, "../.."), edit, loadModules))).toBe(false)
})
