/** Error codes of providers, from the `code` and `type` of an error, in lower case. */

/** The request violates a content policy. */
const contentCodes: ReadonlySet<string> = new Set([
  "content_policy_violation",
  "content_filter",
  "content_filtered",
  "content_blocked",
  "content_moderation",
  "content_not_allowed",
  "invalid_prompt",
  "moderation_blocked",
  "moderation_failed",
  "input_moderation",
  "output_moderation",
  "prompt_blocked",
  "policy_violation",
  "responsibleaipolicyviolation",
  "responsible_ai_policy_violation",
  "safety",
  "safety_violation",
  "sensitive_content",
  "unsafe_content",
])

/** The quota is used up. */
const quotaCodes: ReadonlySet<string> = new Set([
  "insufficient_quota",
  "insufficient_credits",
  "insufficient_balance",
  "insufficient_funds",
  "billing_error",
  "billing_hard_limit_reached",
  "billing_not_active",
  "billing_limit_reached",
  "credit_limit_reached",
  "credits_exhausted",
  "payment_required",
  "quota_exceeded",
  "quota_exhausted",
  "usage_limit_reached",
])

/** Problems of the key, the account or the model, which no request content can cause. */
const configurationCodes: ReadonlySet<string> = new Set([
  "access_terminated",
  "account_deactivated",
  "api_key_invalid",
  "authentication_error",
  "deployment_not_found",
  "deploymentnotfound",
  "incorrect_api_key",
  "incorrect_api_key_provided",
  "insufficient_permissions",
  "invalid_api_key",
  "invalid_authentication",
  "invalid_model",
  "missing_api_key",
  "model_deprecated",
  "model_not_available",
  "model_not_found",
  "model_not_supported",
  "modelnotfound",
  "organization_deactivated",
  "permission_denied",
  "permission_error",
  "unauthorized",
  "unsupported_country_region_territory",
])

export type CodeClass = "content" | "quota" | "configuration"

/** Classifies a code regardless of the status. */
export const classOfCode = (code: string): CodeClass | undefined => {
  const known = code.toLowerCase()
  if (contentCodes.has(known) || known.endsWith("policy_violation")) return "content"
  if (quotaCodes.has(known)) return "quota"
  return configurationCodes.has(known) ? "configuration" : undefined
}
