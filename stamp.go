package ratelimit

import (
	"encoding/binary"
	"fmt"
)

// stampAt is where the stamp is. The first byte is what is locked, which on Windows
// nobody else can read.
const stampAt = 8

// stamp writes into the lock file which the last event in the database is about to be, so
// that others see without a question to SQLite whether there are new ones. The lock must
// be held. Nobody would look for the event if this failed, so it must not be written then.
func (l *turnLock) stamp(seq int64) error {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(seq))
	if _, err := l.file.WriteAt(b[:], stampAt); err != nil {
		return fmt.Errorf("stamp lock file: %w", err)
	}
	return nil
}

// stamped reports whether the stamp is that of an event.
func (l *turnLock) stamped(seq int64) bool {
	var b [8]byte
	_, err := l.file.ReadAt(b[:], stampAt)
	return err == nil && int64(binary.LittleEndian.Uint64(b[:])) == seq
}
