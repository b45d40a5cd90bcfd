export { nearestName } from "@kiln/core/domain"
