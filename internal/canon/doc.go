// Package canon makes of a call's arguments one canonical JSON text, its fingerprint,
// and digests that show later which arguments differ. It knows Go values and JSON,
// and nothing of calls, keys or databases.
package canon
