import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import { errorsOf } from "./ErrorBodies.ts"

/** An API key in `Authorization: Bearer …`. */
export class Authentication extends HttpApiMiddleware.Service<Authentication>()("@kiln/client/api/Authentication", {
  requiredForClient: true,
  security: {
    apiKey: HttpApiSecurity.http({ scheme: "bearer" }).pipe(
      HttpApiSecurity.annotate(
        OpenApi.Description,
        "A project key: `kiln_test_…` makes sandbox jobs, `kiln_live_…` makes live ones.",
      ),
    ),
  },
  error: errorsOf("missing_api_key", "invalid_api_key", "insufficient_scope", "rate_limited"),
}) {}
