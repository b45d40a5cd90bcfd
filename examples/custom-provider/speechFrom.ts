import { type AsyncProvider, providerBroken, providerRefused, providerUnavailable, resultInvalid } from "@kiln/core"

/** Speech by a server that takes JSON and returns an audio file. The type of failure decides whether the job is retried. */
export const speechFrom =
  (url: string, key: string): AsyncProvider<"speech"> =>
  async ({ text, voice }, { jobId, signal }) => {
    const headers = {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      // A call may be made again: a worker can die after the server answered.
      "idempotency-key": `${jobId}-speech`,
    }
    const body = JSON.stringify({ text, voice })
    // Details go to the log: what a server says may repeat the text or the key.
    const broken = () => {
      throw providerUnavailable("no connection, or one that broke")
    }
    // The signal aborts the request when the job is canceled, lost or out of time.
    const response = await fetch(url, { method: "POST", headers, body, signal, redirect: "error" }).catch(broken)
    const { ok, status } = response
    if (status === 401 || status === 404) throw providerBroken("configuration", `status ${status}`)
    if (status === 402) throw providerBroken("quota", `status ${status}`)
    if (status === 451) throw providerRefused("content", `status ${status}`)
    if (status === 400 || status === 422) throw providerRefused("input", `status ${status}`)
    if (!ok) throw providerUnavailable(`status ${status}`, 1_000 * Number(response.headers.get("retry-after")))
    const data = new Uint8Array(await response.arrayBuffer().catch(broken))
    if (data.length === 0) throw resultInvalid("an empty file")
    return { data, mediaType: response.headers.get("content-type") ?? "" }
  }
