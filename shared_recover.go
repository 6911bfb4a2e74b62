package ratelimit

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

const (
	// The pauses between two attempts to use the file again grow from the first to the
	// last.
	firstRecovery = 100 * time.Millisecond
	lastRecovery  = time.Second

	// recoverFor is how long an attempt waits for others. All calls wait for it, which
	// would go on in memory.
	recoverFor = 100 * time.Millisecond

	// recreateAfter is how long a file must be missing before it is made anew: somebody
	// may be about to put it back.
	recreateAfter = time.Second
)

// recovery is how a ledger gets back to its file. Whoever has the turn guards it.
type recovery struct {
	timer   *time.Timer
	pause   time.Duration
	ended   bool
	suspect bool      // the file may be damaged
	missing time.Time // since when it is; zero when it is there
	asUsed  bool      // a new file is to begin as if the minute were used
}

// fail notes that the file cannot be used. From then on memory alone decides. It returns
// the error as callers are to see it.
func (s *ledger) fail(err error) error {
	if !errors.Is(err, ErrCorruptState) && !strings.HasPrefix(err.Error(), s.path) { // or it says all there is to say
		err = explainFile(s.path, err)
	}
	s.suspect = s.suspect || isDamage(err)
	s.rl.mu.Lock()
	s.err = err
	if !s.down.Swap(true) {
		// The others cannot be heard, so nobody waits for them.
		for process, p := range s.peers {
			for n, w := range p.waits {
				if w.process != 0 {
					s.closeWaitLocked(process, n)
					s.rl.standDownLocked(w)
				}
			}
		}
		s.rl.serveAllLocked()
	}
	s.rl.mu.Unlock()
	s.tell()
	s.reporter.Report(err)
	if s.ended {
		return err
	}
	s.pause = min(max(2*s.pause, firstRecovery), lastRecovery)
	if s.timer == nil {
		s.timer = time.AfterFunc(s.pause, s.tryRecovery)
	} else {
		s.timer.Reset(s.pause)
	}
	return err
}

func (s *ledger) tryRecovery() {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	s.recover(recoverFor)
}

func (s *ledger) stopRecovery() {
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
}

// recover uses the file again if that is possible, and waits at most that long for others
// who use it. The turn must be held.
func (s *ledger) recover(most time.Duration) error {
	if !s.down.Load() || s.ended {
		return nil
	}
	if err := s.rejoin(most); err != nil {
		return s.fail(err)
	}
	s.pause = 0
	s.rl.mu.Lock()
	s.err = nil
	s.down.Store(false)
	s.rl.mu.Unlock()
	return s.step(background, func() {}) // serves those who wait
}

// rejoin opens what has to be opened again, and brings memory and file together.
func (s *ledger) rejoin(most time.Duration) error {
	if err := s.lock.InPlace(); err != nil {
		if err := s.relock(); err != nil {
			return err
		}
	}
	if err := s.lock.Lock(most); err != nil {
		return fmt.Errorf("wait for the turn of another process: %w", err)
	}
	defer s.lock.Unlock()
	same := s.file != nil && !s.suspect && s.file.inPlace() == nil
	if same {
		// To bring memory and file together costs more than to find out whether that can
		// be written.
		if err := s.probe(most); err != nil {
			return err
		}
	} else if err := s.reopen(most); err != nil {
		return err
	}
	s.missing = time.Time{}
	if fsx.LivenessOf(s.lifePath(s.id)) == fsx.Unknown {
		life, err := fsx.HoldLife(s.lifePath(s.id))
		if err != nil {
			return err
		}
		s.life.Release()
		s.life = life
	}
	return s.join(most, nil)
}

// probe writes a little to the file.
func (s *ledger) probe(most time.Duration) error {
	if err := s.file.begin(background, most); err != nil {
		return err
	}
	wall, mono := s.clocks()
	if err := s.file.writer.renew(s.id, wall, mono, s.options.ttl); err != nil {
		s.file.rollback()
		return err
	}
	return s.file.commit()
}

// relock opens the lock again, where its file was moved or deleted.
func (s *ledger) relock() error {
	if _, err := os.Stat(filepath.Dir(s.path)); errors.Is(err, fs.ErrNotExist) {
		if err := s.waitForFile(err); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
			return err
		}
	}
	lock, err := fsx.OpenFairLock(s.path + ".lock")
	if err != nil {
		return err
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	s.lock.Close()
	s.lock = lock
	return nil
}

// waitForFile returns the error that a file is missing until it is time to do something.
func (s *ledger) waitForFile(err error) error {
	if s.missing.IsZero() {
		s.missing = time.Now()
	}
	if time.Since(s.missing) < recreateAfter {
		return fmt.Errorf("database was moved or deleted while it was open: %w", err)
	}
	return nil
}

// reopen opens the file that is at the path now, or a new one.
func (s *ledger) reopen(most time.Duration) error {
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		if err := s.waitForFile(err); err != nil {
			return err
		}
	}
	if s.file != nil {
		s.reading.Lock()
		s.file.close()
		s.file.setLogAside()
		s.file = nil
		s.reading.Unlock()
	}
	return s.openFile(most)
}

// openFile opens the file. One that is damaged is set aside, and a new one takes its
// place. The turn must be held in all processes.
func (s *ledger) openFile(most time.Duration) error {
	for began, aside := time.Now(), false; ; {
		f, err := openLedgerFile(s.path, s.options.synchronous())
		if err == nil {
			s.reading.Lock()
			s.file, s.version = f, -1
			s.reading.Unlock()
			s.suspect = false
			return nil
		}
		switch {
		case isBusy(err) && time.Since(began) < most:
			time.Sleep(20 * time.Millisecond)
		case isDamage(err) && !aside:
			name, asideErr := setAside(s.path)
			if asideErr != nil {
				return errors.Join(explainFile(s.path, err), asideErr)
			}
			s.reporter.Report(fmt.Errorf("shared database was damaged and is now %s: %w", name, explainFile(s.path, err)))
			aside, s.asUsed = true, !s.options.freshStart
		default:
			return explainFile(s.path, err)
		}
	}
}

// synchronous is the setting of SQLite that Config.Durability asks for.
func (o *ledgerOptions) synchronous() string {
	if o.durability == durablePower {
		return "FULL"
	}
	return "NORMAL"
}

// setAside gives a damaged database another name, with the files that belong to it.
func setAside(path string) (name string, err error) {
	name = path + ".corrupt-" + fsx.AsideTime()
	// The log goes last: without its database it is not used, and deleted by SQLite.
	for _, suffix := range []string{"", "-shm", "-wal"} {
		if err := os.Rename(path+suffix, name+suffix); err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return name, fmt.Errorf("set aside: %w", err)
		}
	}
	return name, nil
}

// join makes memory and file agree, in a transaction of its own: memory becomes what the
// file says, and what the file does not have is written. The turn must be held in all
// processes.
func (s *ledger) join(most time.Duration, declare func()) error {
	if err := s.file.begin(background, most); err != nil {
		return err
	}
	err := s.joinWithin(declare)
	if err != nil {
		s.file.rollback()
	}
	return err
}

func (s *ledger) joinWithin(declare func()) error {
	w := s.file.writer
	img, err := w.readAll()
	if err != nil {
		return err
	}
	dead := s.deadIn(img)
	if err := s.settleFacts(w, img); err != nil {
		return err
	}
	s.rl.mu.Lock()
	instant := s.rl.clock.Sync()
	s.usedUntil = s.usedUntilLocked(img.facts, instant)
	moved := s.adoptLocked(img)
	for _, id := range dead {
		s.buryLocked(id)
		s.noteNowLocked(&event{kind: eventGone, ref: id}, nil)
	}
	if declare != nil {
		declare()
	}
	s.renewAt = math.MinInt64
	b := s.batchLocked()
	b.renew = true
	if moved {
		b.vouch = slices.Collect(maps.Keys(s.peers))
	}
	s.rl.mu.Unlock()
	if err := s.store(&b); err != nil {
		return err
	}
	s.asUsed = false
	for _, id := range dead {
		fsx.RemoveDead(s.lifePath(id))
	}
	return nil
}

// deadIn returns the processes in the file that do not live any more: by their leases, and those
// of which only events are there.
func (s *ledger) deadIn(img *image) (dead []int64) {
	wall, mono := s.clocks()
	if img.facts[factBoot] != s.machine.Boot {
		mono = 0
	}
	looked := map[int64]bool{0: true, s.id: true} // 0 is the time before the file was shared
	for _, l := range img.leases {
		if looked[l.process] {
			continue
		}
		looked[l.process] = true
		switch fsx.LivenessOf(s.lifePath(l.process)) {
		case fsx.Dead:
			dead = append(dead, l.process)
		case fsx.Unknown:
			if !l.holds(wall, mono) {
				dead = append(dead, l.process)
			}
		}
	}
	for _, e := range img.events {
		if looked[e.process] {
			continue
		}
		looked[e.process] = true
		if fsx.LivenessOf(s.lifePath(e.process)) == fsx.Dead {
			dead = append(dead, e.process)
		}
	}
	return dead
}

// settleFacts brings the facts up to date.
func (s *ledger) settleFacts(w *statements, img *image) error {
	set := func(name, value string) error {
		img.facts[name] = value
		return w.setFact(name, value)
	}
	if img.facts[factFile] == "" {
		if err := set(factFile, strconv.FormatInt(rand.Int64(), 36)); err != nil {
			return err
		}
	}
	if err := s.settleBoot(w, img, set); err != nil {
		return err
	}
	span := factInt(img.facts, factSpan)
	if span < 0 || span > longestSpan {
		return damaged("facts: the span is %d ns", span)
	}
	s.keep = max(s.rl.span(), span)
	if s.keep > span {
		if err := set(factSpan, strconv.FormatInt(s.keep, 10)); err != nil {
			return err
		}
	}
	if !s.asUsed {
		return nil
	}
	wall, mono := s.clocks()
	if err := set(factUsedWall, strconv.FormatInt(wall, 10)); err != nil {
		return err
	}
	return set(factUsedMono, strconv.FormatInt(mono, 10))
}

// settleBoot makes the times of the machine in the file those since its present start.
// While others use it that count from another start, in a container say, this limiter
// goes by the wall clock.
func (s *ledger) settleBoot(w *statements, img *image, set func(name, value string) error) error {
	was := img.facts[factBoot]
	if s.machine.Boot == "" || was == s.machine.Boot {
		return nil
	}
	if was != "" {
		for _, l := range img.leases {
			if l.process != s.id && l.mono > 0 && fsx.LivenessOf(s.lifePath(l.process)) == fsx.Alive {
				s.rl.mu.Lock()
				s.machine = clock.Machine{}
				s.rl.mu.Unlock()
				return nil
			}
		}
	}
	for _, statement := range []string{
		"UPDATE ledger SET mono = 0 WHERE mono <> 0",
		"UPDATE processes SET lease_mono = 0",
	} {
		if _, err := w.exec(statement); err != nil {
			return err
		}
	}
	for _, e := range img.events {
		e.mono = 0
	}
	if err := set(factUsedMono, "0"); err != nil {
		return err
	}
	return set(factBoot, s.machine.Boot)
}

// usedUntilLocked returns until when the minutes count as used because a file was lost;
// 0 when they do not.
func (s *ledger) usedUntilLocked(facts map[string]string, instant int64) int64 {
	e := event{wall: factInt(facts, factUsedWall), mono: factInt(facts, factUsedMono)}
	if e.wall == 0 {
		return 0
	}
	s.dateLocked(&e, instant, math.MinInt64)
	if until := e.at + s.rl.span() + 1; until > instant {
		return until
	}
	return 0
}

// usedAtLocked is usedUntil, as long as it lasts.
func (s *ledger) usedAtLocked(instant int64) int64 {
	if instant >= s.usedUntil {
		s.usedUntil = 0
	}
	return s.usedUntil
}
