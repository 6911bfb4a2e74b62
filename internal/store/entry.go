package store

import (
	"hash/crc32"
)

// Position names an entry of a log. The zero Position is in no log.
type Position struct {
	// Log is which log it is. A store that was emptied and filled again has another one.
	Log uint64
	// Sum tells the entry from another one that got its Seq: a log that lost its end and grew again
	// is not the one that was followed. It covers the Stamp, too, because an entry that is sent
	// again is the same but for that. How it is computed is the store's matter.
	Sum uint64
	// Seq is the number of the entry. Numbers grow, with gaps.
	Seq int64
}

// Stamp is the store's clock as it is, in nanoseconds. It is coarse, and may jump.
type Stamp struct {
	Instant int64 // of a clock that nobody sets; it counts on within a log. 0 is none.
	Wall    int64 // in UnixNano
}

// Entry is a command of a process in the log.
type Entry struct {
	At      Position
	Stamp   Stamp
	Process int64  // who sent it,
	N       int64  // and its number there
	Expect  int64  // the log time that the sender expected; 0 is unknown
	Command []byte // opaque to the store
}

// News is a page of the log behind a position. Entries never appear in front of what was read.
type News struct {
	Entries []Entry
	More    bool  // there is another page behind it
	Now     Stamp // of this reply, also without entries
}

// End returns the position of the last entry, or after where there is none.
func (n *News) End(after Position) Position {
	if len(n.Entries) == 0 {
		return after
	}
	return n.Entries[len(n.Entries)-1].At
}

// Image is the state that the entries up to a position lead to.
type Image struct {
	At    Position // the last entry in it
	Bytes []byte   // opaque to the store
}

// IsZero reports whether it is the image of a store that never had a log.
func (i *Image) IsZero() bool { return i.At.Log == 0 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum hashes an entry, without its position, for stores that keep Position.Sum themselves. prev is
// the Sum of the entry before it, where the store chains them, or zero. A sum tells positions apart
// and finds damage; it is no protection against who wants to forge one.
func (e *Entry) Sum(prev uint64) uint64 {
	sum := prev
	for _, word := range [...]int64{
		e.Stamp.Instant, e.Stamp.Wall, e.Process, e.N, e.Expect,
		int64(len(e.Command))<<32 | int64(crc32.Checksum(e.Command, castagnoli)),
	} {
		sum = mix(sum, uint64(word))
	}
	return sum
}

// mix is a round of splitmix64: what differs in one bit differs in half of them.
func mix(sum, word uint64) uint64 {
	sum = (sum ^ word) + 0x9e3779b97f4a7c15
	sum = (sum ^ sum>>30) * 0xbf58476d1ce4e5b9
	sum = (sum ^ sum>>27) * 0x94d049bb133111eb
	return sum ^ sum>>31
}
