import { type AsyncProvider, providerBroken, providerRefused, providerUnavailable, resultInvalid } from "@kiln/core"

/** Speech from a server that accepts JSON and returns an audio file. The class of a failure decides what happens to the job. */
export const speechFrom =
  (url: string, key: string): AsyncProvider<"speech"> =>
  async ({ text, voice }, { jobId, signal }) => {
    const headers = {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      // The call may be repeated, because a worker can die after the server answered.
      "idempotency-key": `${jobId}-speech`,
    }
    const body = JSON.stringify({ text, voice })
    // Details go to the log, so leave out the server's message: it may contain the text or the key.
    const disconnected = () => {
      throw providerUnavailable("connection failed")
    }
    // The signal aborts the request when the job is canceled, lost or out of time.
    const response = await fetch(url, { method: "POST", headers, body, signal, redirect: "error" }).catch(disconnected)
    const { ok, status } = response
    if (status === 401 || status === 404) throw providerBroken("configuration", `status ${status}`)
    if (status === 402) throw providerBroken("quota", `status ${status}`)
    if (status === 451) throw providerRefused("content", `status ${status}`)
    if (status === 400 || status === 422) throw providerRefused("input", `status ${status}`)
    if (!ok) throw providerUnavailable(`status ${status}`, 1_000 * Number(response.headers.get("retry-after")))
    const data = new Uint8Array(await response.arrayBuffer().catch(disconnected))
    if (data.length === 0) throw resultInvalid("an empty file")
    return { data, mediaType: response.headers.get("content-type") ?? "" }
  }
