package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// optimistic is a sharedlog.Step. It excludes nobody: Commit finds out whether others came first.
type optimistic struct {
	log       *Log
	base      int64 // the place of the last event that the caller knows with the news
	news      sharedlog.News
	conflicts int
	line      *line // the processes whose turn comes first; nil if none is known
	ended     bool
}

// Begin implements sharedlog.Log. It asks the store only for Everything, and where it knows that
// events are missing.
func (l *Log) Begin(ctx context.Context, seen int64) (sharedlog.Step, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", sharedlog.ErrNoTime, err)
	}
	if l.closing.Err() != nil {
		return nil, errClosed
	}
	s := &optimistic{log: l, base: seen}
	if seen == sharedlog.Everything || l.lacks.Load() && l.usable() == nil {
		if err := s.readEverything(ctx); err != nil {
			if ended := ctx.Err(); ended != nil {
				return nil, fmt.Errorf("%w: %w", sharedlog.ErrNoTime, err)
			}
			return nil, err
		}
		return s, nil
	}
	if err := l.usable(); err != nil {
		return nil, err
	}
	if entries, ok := l.heard.behind(seen); ok {
		if err := s.tell(entries); err != nil {
			return nil, err
		}
	}
	if l.crowded > 0 && sharedlog.IsDeciding(ctx) {
		if err := s.join(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// crowdedFor is how many deciding steps get in line before they are decided after one that others
// came before: in a crowd the first try is mostly in vain, and as much work as the one that counts.
const crowdedFor = 4

// join gets in line, and waits for the turn. All that comes before it is news.
func (s *optimistic) join() error {
	if err := s.askTurn(); err != nil {
		return err
	}
	return s.awaitTurn()
}

// askTurn gets in line, or asks who is ahead there.
func (s *optimistic) askTurn() error {
	l := s.log
	at, ok := l.heard.at(s.base)
	if !ok {
		return errReplaced
	}
	r, err := l.send(context.Background(), l.request(&write{}, at, nil, modeJoin, 0))
	if err != nil {
		return err
	}
	if r.place == s.base && r.text == "" {
		l.crowded-- // nobody else is there
	}
	return s.overtaken(at.epoch, r)
}

// tell adds entries to the news of the step.
func (s *optimistic) tell(entries []entry) error {
	news, err := s.log.news(entries, s.base)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		s.base = entries[len(entries)-1].last()
	}
	news.Events = append(s.news.Events, news.Events...)
	s.news = news
	return nil
}

// readEverything makes the whole log the news of the step.
func (s *optimistic) readEverything(ctx context.Context) (err error) {
	s.news, s.base, err = s.log.everything(ctx)
	return err
}

// News implements sharedlog.Step.
func (s *optimistic) News() sharedlog.News { return s.news }

// Rollback implements sharedlog.Step. If the process is in line, it leaves that.
func (s *optimistic) Rollback() {
	s.ended = true
	if l := s.log; s.conflicts > 0 && l.closing.Err() == nil {
		q := l.request(&write{}, l.heard.position(), nil, modeLeave, 0)
		l.goroutines.Go(func() { l.send(l.closing, q) }) // else its turn ends by itself
	}
}

// Commit implements sharedlog.Step. A batch that is too long for one script is one that was kept
// while the store was down: its parts follow each other, and nothing may come between.
func (s *optimistic) Commit(b *sharedlog.Batch) (first int64, err error) {
	if s.ended {
		return 0, errors.New("redis: the step has ended")
	}
	var told []*sharedlog.Event
	for from := 0; ; {
		to := min(from+mostEvents, len(b.Events))
		at, err := s.write(b, from, to)
		told = append(told, s.news.Events...)
		switch {
		case errors.Is(err, sharedlog.ErrConflict) && from == 0:
			return 0, err
		case err != nil:
			s.ended = true
			if from > 0 && (errors.Is(err, sharedlog.ErrConflict) || errors.Is(err, sharedlog.ErrReplaced)) {
				err = fmt.Errorf("redis: %w: %d of %d events", sharedlog.ErrPartly, from, len(b.Events))
			}
			if isFull(err) {
				s.log.chores.add(b) // which makes room
			}
			return 0, err
		case from == 0:
			first = at
		}
		if from = to; from >= len(b.Events) {
			break
		}
	}
	s.ended = true
	s.news.Events = told
	s.log.chores.add(b)
	return first, nil
}

// write writes the events of a batch from one up to another.
func (s *optimistic) write(b *sharedlog.Batch, from, to int) (first int64, err error) {
	l := s.log
	if err := l.usable(); err != nil {
		return 0, err
	}
	w, err := l.writeOf(b, from, to)
	if err != nil {
		return 0, err
	}
	at, ok := l.heard.at(s.base)
	if !ok {
		return 0, errReplaced // the caller follows another log
	}
	l.number++
	mode, lease := s.mode(b, from), int64(0)
	if b.Renew {
		lease = l.options.LeaseTTL.Milliseconds()
	}
	q := l.request(w, at, l.factsAt(at, b.Renew || mode == modeNext), mode, lease)
	r, err := l.send(context.Background(), q)
	if err != nil {
		return 0, err
	}
	if r.status == statusConflict {
		l.crowded, s.news = crowdedFor, sharedlog.News{}
		if err := s.overtaken(at.epoch, r); err != nil {
			return 0, err
		}
		if err := s.awaitTurn(); err != nil {
			return 0, err
		}
		return 0, sharedlog.ErrConflict
	}
	return r.place, s.wrote(at.epoch, r, w)
}

// factsAt returns the facts of the log for a batch behind a position; nil where the script is to
// look at all keys, because it has more to do or has not done so for a while.
func (l *Log) factsAt(at position, more bool) *facts {
	f := l.facts.Load()
	if more || at.stamp == 0 || f == nil || f.log != at.log || f.inLine || l.since(time.Now())-l.wholeAt.Load() > int64(lookEvery) {
		return nil
	}
	return f
}

// mode returns how the script is to write the part of a batch from an event on.
func (s *optimistic) mode(b *sharedlog.Batch, from int) string {
	switch appends := b.Appends && !slices.ContainsFunc(b.Events, func(e *sharedlog.Event) bool { return e.Kind == sharedlog.Reset }); {
	case appends && from > 0:
		return modeNext
	case appends:
		return modeAppend
	case s.conflicts > 0:
		return modeQueue
	}
	return modeCompare
}

// overtaken adds what others have written to the news, and learns who comes first.
func (s *optimistic) overtaken(epoch int64, r timed) error {
	l := s.log
	s.conflicts++
	s.line = lineOf(r)
	entries, err := l.upTo(context.Background(), s.base, r.place, r)
	if err == nil {
		if l.heard.add(epoch, entries) {
			l.notify()
		}
		l.known(r.sent)
		return s.tell(entries)
	}
	if errors.Is(err, sharedlog.ErrIncomplete) {
		s.line = nil // the turn may be over until everything is applied
		return s.readEverything(context.Background())
	}
	return err
}

// awaitTurn waits until it is the turn of this process, if it is in line. What others have written
// meanwhile is news.
func (s *optimistic) awaitTurn() error {
	l := s.log
	for s.line != nil && l.closing.Err() == nil {
		passed := s.line.wait(l)
		s.line = nil
		if entries, ok := l.heard.behind(s.base); ok {
			if err := s.tell(entries); err != nil {
				return err
			}
		}
		if !passed {
			if err := s.askTurn(); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrote makes what came first, and the events that were written as the store has them, the news.
func (s *optimistic) wrote(epoch int64, r timed, w *write) (err error) {
	l, stamp := s.log, r.now
	if r.text != "" {
		if stamp, err = parseInt(r.text); err != nil {
			return fmt.Errorf("redis: %w: date %q", errReply, r.text)
		}
	}
	all := r.entries
	if r.place == s.base+1 && len(all) == 0 {
		if s.news = l.newsOf(w.stored(r.place, stamp)); len(w.events) > 0 {
			all = []entry{{r.place, stamp, int64(len(w.events)), w.value}}
			s.base = all[0].last()
		}
	} else {
		s.news = sharedlog.News{}
		if all, err = l.upTo(context.Background(), s.base, r.place+int64(len(w.events))-1, r); err == nil {
			err = s.tell(all)
		}
		if err != nil {
			return err
		}
	}
	l.heard.add(epoch, all)
	l.known(r.sent)
	return nil
}
