/* pairs.c - merging tokens, see pairs.h. What may merge waits in a heap; each merge takes one token away and offers two pairs. */
#include "data/pairs.h"
#include "base/hash.h"

static size_t slot_of(const rush_pairs *p, int32_t left, int32_t right)
{
    size_t mask = 2 * p->room - 1, at = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * p->key >> 24 & mask;
    while (p->slot[at] >= 0 && (p->pair[p->slot[at]].left != left || p->pair[p->slot[at]].right != right)) at = (at + 1) & mask;
    return at;
}

const rush_pair *rush_pairs_find(const rush_pairs *p, int32_t left, int32_t right)
{
    int32_t i = p->n ? p->slot[slot_of(p, left, right)] : -1;
    return i >= 0 ? &p->pair[i] : NULL;
}

static int grow(rush_pairs *p)
{
    size_t room = p->room ? 2 * p->room : 64;
    RUSH_CHECK(room < INT32_MAX, RUSH_VALUE_ERROR, "a tokeniser of more pairs than there are numbers");
    rush_pair *pair = rush_realloc(p->pair, room * sizeof *pair);
    if (pair) p->pair = pair;
    int32_t *slot = pair ? rush_malloc(2 * room * sizeof *slot) : NULL;
    if (!slot) return -1;
    rush_free(p->slot);
    p->slot = slot, p->room = room, p->key = rush_hash_name("pairs") | 1;
    for (size_t i = 0; i < 2 * room; i++) slot[i] = -1;
    for (size_t i = 0; i < p->n; i++) slot[slot_of(p, pair[i].left, pair[i].right)] = (int32_t)i;
    return 0;
}

int rush_pairs_add(rush_pairs *p, rush_pair pair)
{
    if (p->n == p->room && grow(p)) return -1;
    size_t at = slot_of(p, pair.left, pair.right);
    if (p->slot[at] >= 0) return 0;
    p->slot[at] = (int32_t)p->n;
    p->pair[p->n++] = pair;
    return 0;
}

void rush_pairs_drop(rush_pairs *p)
{
    rush_free(p->pair);
    rush_free(p->slot);
    *p = (rush_pairs){0};
}

/* ---- merging ---- */

typedef struct link { /* neighbours by number, -1: none */
    int32_t before, after;
} link;

typedef struct offer {
    const rush_pair *pair;
    int32_t left, right; /* where its tokens were when it was made */
} offer;

typedef struct merging {
    const rush_pairs *pairs;
    int32_t *token;
    link *link;
    offer *heap;
    int32_t n; /* offers */
} merging;

static bool comes_before(const offer *a, const offer *b) { return a->pair->rank != b->pair->rank ? a->pair->rank < b->pair->rank : a->left < b->left; }

static void make_offer(merging *m, int32_t left, int32_t right)
{
    if (left < 0 || right < 0) return;
    offer x = {rush_pairs_find(m->pairs, m->token[left], m->token[right]), left, right};
    if (!x.pair) return;
    int32_t i = m->n++;
    for (; i > 0 && comes_before(&x, &m->heap[(i - 1) / 2]); i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = x;
}

static offer take_first(merging *m)
{
    offer first = m->heap[0], last = m->heap[--m->n];
    int32_t i = 0, child;
    for (; (child = 2 * i + 1) < m->n; i = child) {
        if (child + 1 < m->n && comes_before(&m->heap[child + 1], &m->heap[child])) child++;
        if (!comes_before(&m->heap[child], &last)) break;
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return first;
}

static void merge_all(merging *m, int32_t n)
{
    for (int32_t i = 0; i < n; i++) m->link[i] = (link){i - 1, i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i + 1 < n; i++) make_offer(m, i, i + 1);
    while (m->n) {
        offer x = take_first(m);
        link *a = &m->link[x.left], *b = &m->link[x.right];
        if (a->after != x.right || m->token[x.left] != x.pair->left || m->token[x.right] != x.pair->right) continue;
        m->token[x.left] = x.pair->into;
        a->after = b->after;
        *b = (link){-1, -1};
        if (a->after >= 0) m->link[a->after].before = x.left;
        make_offer(m, a->before, x.left);
        make_offer(m, x.left, a->after);
    }
}

int64_t rush_pairs_merge(const rush_pairs *p, int32_t *token, int64_t n)
{
    enum { FEW = 32 };
    link few[FEW];
    offer some[3 * FEW];
    if (n < 2 || !p->n) return n;
    RUSH_CHECK(n < INT32_MAX / 4, RUSH_VALUE_ERROR, "a word of %lld bytes is too long for a tokeniser", (long long)n);
    merging m = {p, token, few, some, 0};
    offer *room = n > FEW ? rush_malloc((size_t)n * (3 * sizeof *room + sizeof *m.link)) : NULL;
    if (n > FEW && !room) return -1;
    if (room) m.heap = room, m.link = (link *)(room + 3 * n);
    merge_all(&m, (int32_t)n);
    int64_t left = 0;
    for (int32_t i = 0; i >= 0; i = m.link[i].after) token[left++] = token[i];
    rush_free(room);
    return left;
}
