package ratelimit

import (
	"encoding/json"
	"errors"
	"math"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// eventKind says what an event does. The values are stored in the file and must stay
// as they are.
type eventKind int64

const (
	// eventUse is a charge that nobody settles: of RecordUsage, or of what a
	// reservation took beyond its estimate after that had left the window.
	eventUse eventKind = 1
	// eventReserve is the charge of a reservation, which holds a slot until an event
	// refers to it.
	eventReserve eventKind = 2
	// eventAmend settles a reservation: its tokens become those of the event.
	eventAmend eventKind = 3
	// eventRelease settles a reservation and leaves its charge as it is.
	eventRelease eventKind = 4
	// eventCancel settles a reservation and takes its charge back.
	eventCancel eventKind = 5
	// eventMove moves the charge of a reservation to another time.
	eventMove eventKind = 6
	// eventReset forgets what a model has used; all models where it names none.
	eventReset eventKind = 7
	// eventCooldown keeps a model closed until its time.
	eventCooldown eventKind = 8
	// eventQuota sets the quota of a model, which is its text.
	eventQuota eventKind = 9
	// eventWait puts somebody at the end of the lines of the models that its text
	// names, and eventLeave takes them out again.
	eventWait  eventKind = 10
	eventLeave eventKind = 11
	// eventGone ends what a process that has died held: its slots and its places in
	// lines. What it charged stays.
	eventGone eventKind = 12
	// eventEvict takes a process that does not answer out of all lines.
	eventEvict eventKind = 13
	// eventDay says how the day of a model is, where no charge has changed it.
	eventDay eventKind = 14
	// eventTally is what several charges, which count no more, add to the day.
	eventTally eventKind = 15
	// eventReleaseAll is eventRelease for several reservations, whose numbers are its text.
	eventReleaseAll eventKind = 16
)

// event is one row of the ledger: a change that some process made, in the order in which
// all of them apply it. It says what happened to the windows, not why, so that all of
// them come to the same.
type event struct {
	seq     int64 // its place in the file; 0 as long as it is not there
	process int64 // who made it,
	n       int64 // and which one of its own that is
	kind    eventKind
	ref     int64  // of the same process: which reservation or place in line; or another process
	model   string // the name under which it is counted

	at       int64 // when it counts, as an instant of this limiter's time line
	wall     int64 // when it was made, or when it ends, in UnixNano
	mono     int64 // the same in the time of the machine since it was started; 0 if unknown
	age      int64 // how long before that it counts, in nanoseconds
	requests int
	tokens.Count

	day    usageDay // the model's, after the event
	hasDay bool

	text string
}

const (
	maxSeq = int64(1) << 62 // so that there are places behind it
	maxAge = int64(1) << 61 // so that no difference of times overflows; 73 years
)

// check refuses an event of the file that no limiter writes.
func (e *event) check() error {
	switch {
	case e.seq <= 0 || e.seq > maxSeq:
		return damaged("ledger: an event has the place %d", e.seq)
	case e.process < 0 || e.process == 0 && e.kind != eventUse: // 0 is the time before the file was shared
		return damaged("ledger: event %d is of process %d", e.seq, e.process)
	case e.age < 0 || e.age > maxAge:
		return damaged("ledger: event %d is %d ns older than its time", e.seq, e.age)
	}
	return nil
}

// key tells events apart, also those that are not in the file yet.
type eventKey struct{ process, n int64 }

func (e *event) key() eventKey { return eventKey{e.process, e.n} }

// quotaText and quotaOf are the text of an eventQuota.
func quotaText(q ModelQuota) string { return jsonText(q) }

func quotaOf(text string) (q ModelQuota, err error) {
	if err = json.Unmarshal([]byte(text), &q); err != nil {
		return ModelQuota{}, err
	}
	if reason, bad := q.invalid(); bad {
		return ModelQuota{}, errors.New(reason)
	}
	return q, nil
}

// requestsText and requestsOf are the text of an eventWait.
func requestsText(requests []Request) string { return jsonText(requests) }

func requestsOf(text string) (requests []Request, err error) {
	err = json.Unmarshal([]byte(text), &requests)
	return requests, err
}

// entriesOf is the text of an eventReleaseAll.
func entriesOf(text string) (entries []int64, err error) {
	err = json.Unmarshal([]byte(text), &entries)
	return entries, err
}

// jsonText returns a value of ours, of strings and integers, as JSON.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // there is no such value
	}
	return string(text)
}

// saturatedInt is a stored count as an int, which has 32 bits on some machines.
func saturatedInt(count int64) int { return int(min(max(count, 0), math.MaxInt)) }
