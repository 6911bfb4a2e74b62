package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// eventKind is what a machine tells.
type eventKind string

const (
	eventSent    eventKind = "sent"    // a call was admitted and is about to be sent
	eventEnded   eventKind = "ended"   // a call has ended
	eventState   eventKind = "state"   // what the machine knows of the quota
	eventProblem eventKind = "problem" // what the limiter told Config.OnError
)

// event is a line of JSON from a machine to the program that started it.
type event struct {
	Kind   eventKind
	Status int    // of an answer; 0 without one
	RPM    int    // used in the last minute by all machines, as this one knows
	TPM    int    // the same in tokens
	Text   string // of a problem; of a state, why Redis cannot be used, and empty if it can
}

// write writes the event in one piece, because several goroutines write.
func (e event) write(w io.Writer) error {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}
