package adaptive

// SearchState is where a RateSearch or a SlotSearch stands, in whole numbers, to be kept or
// handed to another process. The levels of a RateSearch are in units in 10^9 seconds, those of
// a SlotSearch in thousandths of a slot. The zero SearchState is nothing. Whether there are
// rivals is not in it: the next refusals tell that.
type SearchState struct {
	// Level is the limit, and 0 if nothing was found.
	Level int64 `json:"level"`
	// Knee is the level at which the provider last refused, and 0 if that is not known.
	Knee int64 `json:"knee,omitzero"`
	// Step is the latest step beyond the knee.
	Step int64 `json:"step,omitzero"`
	// Raised is what the latest clean window added, and 0 after a refusal.
	Raised int64 `json:"raised,omitzero"`
	// Streak is the number of decreases without a clean window between. From 6 on nothing is
	// known any more, and they are not counted further.
	Streak int64 `json:"streak,omitzero"`
	// Lowered is how long ago the level was last lowered, in nanoseconds, at least 1, and 0
	// for never.
	Lowered int64 `json:"lowered,omitzero"`
}
