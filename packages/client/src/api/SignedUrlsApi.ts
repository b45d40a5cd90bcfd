import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import { acceptedMediaTypes, limits } from "@kiln/core/domain"
import { errorsOf } from "./ErrorBodies.ts"
import { signedQuery } from "./endpoints.ts"
import { Id } from "./fieldSchemas.ts"

const audioMediaTypes = [...new Set(Object.values(acceptedMediaTypes).flat())].sort()
const fileErrors = errorsOf(
  "file_url_invalid",
  "file_gone",
  "range_not_satisfiable",
  "headers_too_large",
  "internal_error",
  "service_unavailable",
)
const file = {
  params: { id: Id("fil", "The file's identifier.") },
  query: signedQuery,
  success: HttpApiSchema.StreamUint8Array({ contentType: ["audio/mpeg", "image/png", "application/octet-stream"] }),
  error: fileErrors,
}

/** The two signed URLs, whose signature is the authorization. Open to all origins; `Authorization` is ignored. */
export class SignedUrlsApi extends HttpApiGroup.make("signedUrls")
  .add(
    HttpApiEndpoint.put("putFile", "/v1/audio/uploads/:id/file", {
      params: { id: Id("upl", "The upload's identifier.") },
      query: signedQuery,
      payload: HttpApiSchema.StreamUint8Array({ contentType: audioMediaTypes, maxBytes: limits.uploadBytes }),
      success: HttpApiSchema.NoContent,
      error: errorsOf(
        "partial_upload",
        "digest_mismatch",
        "upload_url_invalid",
        "upload_timeout",
        "upload_in_progress",
        "upload_already_completed",
        "upload_expired",
        "file_too_large",
        "unsupported_content_type",
        "empty_file",
        "audio_format_mismatch",
        "rate_limited",
        "uploads_full",
        "storage_full",
        "headers_too_large",
        "internal_error",
        "service_unavailable",
      ),
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Send the file of an upload",
        description:
          "Use the `upload_url` of an upload exactly as it was returned. Only one PUT succeeds. An interrupted or rejected one may be repeated, up to 5 transfers in total.",
      }),
    ),
    HttpApiEndpoint.get("getFile", "/v1/files/:id", file).annotateMerge(
      OpenApi.annotations({
        summary: "Download a generated file",
        description:
          "Use the `audio_url` or `image_url` of a finished job exactly as it was returned. Supports `Range`.",
      }),
    ),
    HttpApiEndpoint.head("headFile", "/v1/files/:id", { ...file, success: HttpApiSchema.Empty(200) }).annotateMerge(
      OpenApi.annotations({
        summary: "Get the size and type of a generated file",
        description: "The headers of the file, without the file. For the same URL as a download.",
      }),
    ),
  )
  .annotateMerge(
    OpenApi.annotations({ title: "Signed URLs", description: "Upload and download files. No API key is needed." }),
  ) {}
