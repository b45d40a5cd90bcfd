import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import { errorsOf } from "./ErrorBodies.ts"

/** Requires an API key in `Authorization: Bearer …`. */
export class Authentication extends HttpApiMiddleware.Service<Authentication>()("@kiln/client/api/Authentication", {
  requiredForClient: true,
  security: {
    apiKey: HttpApiSecurity.http({ scheme: "bearer" }).pipe(
      HttpApiSecurity.annotate(
        OpenApi.Description,
        "A project's API key. A key that starts with `kiln_test_` creates sandbox jobs; one that starts with `kiln_live_` creates live jobs.",
      ),
    ),
  },
  error: errorsOf("missing_api_key", "invalid_api_key", "insufficient_scope", "rate_limited"),
}) {}
