// With ten thousand children.
import "./manyChildren.system.ts"
