package state

// Found is what was found of the limits of a model by being refused, as it is stored: see
// ModelQuota.AdaptiveFloorRPM. The zero value is nothing.
type Found struct {
	Rate  Search `json:"rate,omitzero"`  // in requests in 10^9 seconds
	Slots Search `json:"slots,omitzero"` // in thousandths of a call in flight
	At    int64  `json:"at"`             // when it was so, in UnixNano
	// Told reports that the headers of the provider say its limits of the minute, so the rate does
	// not apply.
	Told bool `json:"told,omitzero"`
}

// Search is where the search for a limit stands, as adaptive.SearchState.
type Search struct {
	Level   int64 `json:"level"`            // the limit; 0 where nothing was found
	Knee    int64 `json:"knee,omitzero"`    // where the provider last refused; 0 if that is not known
	Step    int64 `json:"step,omitzero"`    // the last one beyond the knee
	Raised  int64 `json:"raised,omitzero"`  // what the last clean window added
	Streak  int64 `json:"streak,omitzero"`  // refusals without a clean window between
	Lowered int64 `json:"lowered,omitzero"` // how long before At it was last lowered, in nanoseconds; 0 for never
}
