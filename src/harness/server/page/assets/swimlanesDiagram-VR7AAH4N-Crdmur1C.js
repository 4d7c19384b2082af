import{r as e,t}from"./chunk-SHT3W25Y-ChIJqvTd.js";import"./chunk-POPQ4Y6H-4bKEqrXv.js";import"./chunk-LNGE3PJU-DRjopGY8.js";import"./chunk-TLUHSLCS-CS793U5I.js";import"./chunk-F27PBJKO-CxIE6E0X.js";import"./chunk-L3NEJ4N5-BcLZU-i9.js";import"./chunk-OSK3NFVY-WdTXspvY.js";import"./chunk-GVQU2GXP-Dy_7lhEm.js";import"./chunk-4HAMMTFA-ap2PSfew.js";import"./chunk-P2QGCYS3-BSUjYXWF.js";import"./chunk-GMAD6QVW-B1ocj9Md.js";import"./chunk-PWAF6VOD-xR5p_cq9.js";import"./chunk-75Z2AOVW-B9SJcnP6.js";import"./chunk-DU6HZSFF-D8GUvf8f.js";import"./d3-selection-CQOeqU2O.js";import{n}from"./chunk-Y2CYZVJY-DsF7k-Jl.js";var r=t({defaultLayout:`swimlane`,styles:n(t=>`${e(t)}
  .swimlane.cluster rect {
    stroke: ${t.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,`getStyles`)});export{r as diagram};