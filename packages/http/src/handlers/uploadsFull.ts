import type { UploadCap } from "@kiln/core/domain"
import { Refusal } from "../server/Refusal.ts"

/** Refuses an upload or its file at the project's limit, and names both limits; 0 is no limit. */
export const uploadsFull = ({ bytes, uploads }: UploadCap): Refusal =>
  new Refusal({ code: "uploads_full", details: { uploads, bytes } })
