import { type AnsweredRequest, type HttpObserver, knownMethod } from "@kiln/http"
import { counter, gauge, histogram } from "./series.ts"

const requests = counter(
  "kiln_http_requests_total",
  "HTTP requests by method, route and status",
  "method",
  "route",
  "status",
)
const refusals = counter(
  "kiln_http_refusals_total",
  "HTTP requests answered with an error, by its code",
  "route",
  "code",
)
const seconds = histogram(
  "kiln_http_request_duration_seconds",
  "Time until the response to an HTTP request was ready. Includes the upload of a file, not its download",
  [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60],
  "method",
  "route",
)
const inFlight = gauge("kiln_http_requests_in_flight", "HTTP requests without a response yet")
const uploads = counter(
  "kiln_uploads_total",
  "Transfers of uploaded files by outcome: received, refused, broken or failed",
  "outcome",
)
const uploadedBytes = counter("kiln_upload_received_bytes_total", "Bytes of uploaded files, including refused ones")

const uploadRoute = "/v1/audio/uploads/:id/file"

const uploadOutcome = ({ code, status }: Pick<AnsweredRequest, "code" | "status">): string => {
  if (status < 300) return "received"
  // The code of a body whose sender went away.
  if (code === "malformed_request") return "broken"
  return status >= 500 ? "failed" : "refused"
}

/** Measures the requests of this process. Requests without a route share one series, because their paths are unbounded. */
export const makeHttpObserver = (log?: (answered: AnsweredRequest) => void): HttpObserver => {
  let current = 0
  return {
    began: () => inFlight.record([], (current += 1)),
    answered: (answered) => {
      const { code, durationMs, receivedBytes, route = "unmatched", status } = answered
      const method = knownMethod(answered.method)
      inFlight.record([], (current -= 1))
      requests.record([method, route, String(status)], 1)
      if (code !== undefined) refusals.record([route, code], 1)
      seconds.record([method, route], durationMs / 1_000)
      if (route === uploadRoute && method === "PUT") {
        uploads.record([uploadOutcome(answered)], 1)
        uploadedBytes.record([], receivedBytes)
      }
      log?.(answered)
    },
  }
}
