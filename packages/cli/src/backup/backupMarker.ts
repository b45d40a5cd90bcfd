/** Marks a directory as one of backups. Without it, a backup removes nothing there, and with it, no installation stores files there. */
export const backupMarker = "kiln-backup.json"
